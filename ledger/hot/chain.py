"""Hot commits: ranges of the log that are folded and in no table yet. A process beside a server makes them, and sends changes.

Hot commits are values of `Commit` in memory. Only a reader that was given them sees them; no writer reads them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tandem.ledger.log.positions import Position
from tandem.ledger.realtime.commit_files import from_rows, row_values
from tandem.ledger.realtime.commits import Commit
from tandem.views.errors import TandemError

LOOK_S: Final = 0.25
"""Seconds between two polls of the tables by a hot tail, at least: no answer waits for the hand-over."""

_ROWS: Final = msgspec.msgpack.Decoder(list[dict[str, Any]])

HotCommits = tuple[Commit, ...]
"""Hot commits in order; each starts where the one before it ends."""


@dataclass(frozen=True)
class HotChange:
    """A change of one source's hot commits: they now start at `base`, and `commit` takes the place of those in its range.

    It joins the others at the front or the end if no commit is in its range.
    """

    base: Position
    commit: Commit | None = None


def changed(commits: HotCommits, change: HotChange) -> HotCommits:
    """The hot commits after a change; none if they would not tile a range from its base on."""
    found = [commit for commit in commits if change.base.at_or_below(commit.start)]
    if (new := change.commit) is not None:
        below = [commit for commit in found if commit.end.at_or_below(new.start)]
        found = [*below, new, *(commit for commit in found if new.end.at_or_below(commit.start))]
    return tuple(found) if tiles(found, change.base) else ()


def continued(earlier: HotCommits, commits: HotCommits) -> int | None:
    """How many of the hot commits have exactly the events of earlier ones; None if no number of them has."""
    return counting(commits, earlier[0].epoch, earlier[0].start, earlier[-1].end) if earlier else 0


def counting(commits: HotCommits, epoch: int, start: Position, end: Position) -> int | None:
    """How many of the hot commits have exactly the events that those of an epoch had in a range; None if no number of them has.

    The process that made both has since added commits and merged neighbours, but neither started again nor from another base:
    hot commits of one epoch that start at one position only differ in how they divide the log.
    """
    if not commits or (commits[0].epoch, commits[0].start) != (epoch, start):
        return None
    return next((number for number, commit in enumerate(commits, 1) if commit.end == end), None)


def tiles(commits: Sequence[Commit], base: Position) -> bool:
    """Whether the commits cover a range from `base` on, each from the end of the one before it."""
    reached = base
    for commit in commits:
        if commit.start != reached:
            return False
        reached = commit.end
    return True


def continuing(committed: Sequence[Commit], cut: Position, hot: HotCommits) -> tuple[Commit, ...] | None:
    """The commits, which tile the log from the cut on, up to where the hot commits continue them; None if they do not.

    The hot commits have to start at the cut or at the end of a commit, and to end at or above all commits, on each partition.
    """
    if not hot:
        return None
    end = committed[-1].end if committed else cut
    if not end.at_or_below(hot[-1].end):
        return None
    for number in range(len(committed), -1, -1):
        if (committed[number - 1].end if number else cut) == hot[0].start:
            return tuple(committed[:number])
    return None


def encoded(commit: Commit) -> bytes:
    """A commit as bytes: the rows of a realtime table, without the cost of an Arrow table of one row."""
    return msgspec.msgpack.encode(row_values(commit))


def decoded(stream: bytes) -> Commit:
    """Inverse of `encoded`. Raises TandemError."""
    try:
        return from_rows(_ROWS.decode(stream))
    except (msgspec.MsgspecError, KeyError, IndexError, ValueError, TypeError, AttributeError) as error:
        raise TandemError(f"a hot commit of {len(stream)} bytes cannot be read: {error}") from error
