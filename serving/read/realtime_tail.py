"""The realtime side of a source: what its table and its hot tail have from the cut on.

That of a view over several sources is one chain of commits of all of them, at positions in all logs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import takewhile
from typing import Final

from tandem.ledger.hot.chain import HotCommits, continuing
from tandem.ledger.log.counts import Counts, plus
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.batch_parts import pair_numbers
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.united_positions import part_of, unite
from tandem.views.source.watermark import later

_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class RealtimeTail:
    """The realtime side of a source: commits in order that tile `[cut, end)`, then hot commits that no table has.

    `problem` says why they do not, if so: then none of the source's views has an answer. `behind_bridge` says that the table
    continues beyond a bridge, which is read once a batch view covers it. `cold` is the tail without hot commits, if it has some.
    What a view over several sources has is made of its `parts`, the tails by source (`unite_tails`).
    """

    cut: Position
    end: Position
    commits: tuple[Commit, ...] = field(default=(), repr=False)
    behind_bridge: bool = False
    problem: str | None = None
    hot: HotCommits = field(default=(), repr=False)
    cold: "RealtimeTail | None" = field(default=None, repr=False)
    parts: "Mapping[str, RealtimeTail]" = field(default_factory=dict, repr=False)

    @property
    def every(self) -> tuple[Commit, ...]:
        """All commits, in order."""
        return (*self.commits, *self.hot)

    @property
    def committed(self) -> Position:
        """Where the commits of the table end and hot commits begin."""
        return self.hot[0].start if self.hot else self.end

    def with_hot(self, hot: HotCommits) -> "RealtimeTail":
        """The tail with hot commits in place of what follows their start; the same tail if they do not continue it."""
        cold = self.cold or self
        kept = None if cold.problem is not None else continuing(cold.commits, cold.cut, hot)
        return self if kept is None else replace(cold, end=hot[-1].end, commits=kept, hot=hot, cold=cold)

    def of(self, fingerprint: str) -> "RealtimeTail":
        """The tail of one view: it ends where hot commits begin that lack the view, because it stands aside."""
        hot = tuple(takewhile(lambda commit: fingerprint in commit.partials, self.hot))
        return self if self.cold is None or len(hot) == len(self.hot) else self.cold.with_hot(hot)

    def up_to(self, end: Position) -> "RealtimeTail":
        """The tail up to a position at which one of its commits ends, hot ones among them, or to its cut."""
        commits, hot = (tuple(each for each in part if each.end.at_or_below(end)) for part in (self.commits, self.hot))
        return replace(self, end=end, commits=commits, hot=hot, cold=None)

    @property
    def hot_throughout(self) -> frozenset[str]:
        """The fingerprints of the views that all hot commits have."""
        return frozenset.intersection(*(frozenset(commit.partials) for commit in self.hot)) if self.hot else frozenset()

    @property
    def counts(self) -> Counts:
        """The counts of the records of `[cut, end)`."""
        return plus(*(commit.counts for commit in self.every))

    @property
    def newest(self) -> datetime | None:
        """The append time of the newest event of `[cut, end)`; None without events.

        A record that claims to be newer than the commit that counted it has a wrong timestamp: it was in the log by then.
        """
        times = ((commit.newest, commit.at) for commit in self.every)
        return max((min(newest, at or newest) for newest, at in times if newest), default=None)

    @property
    def watermark(self) -> int | None:
        """The watermark at `end`, as far as the commits know it, in microseconds since 1970."""
        return later(*(commit.watermark for commit in self.every))

    @property
    def identities_since(self) -> datetime | None:
        """Events counted before this time had duplicates in `[cut, end)` that could not be recognized, for lack of memory.

        None where no identity within `dedup_window` was evicted.
        """
        return max((commit.identities_since for commit in self.every if commit.identities_since), default=None)

    def after_final(self, fingerprint: str) -> int:
        """How many events of a view in `[cut, end)` arrived in windows that had been labelled final."""
        return sum(commit.after_final.get(fingerprint, 0) for commit in self.every)


def unite_tails(tails: Mapping[str, RealtimeTail], fingerprint: str, parts: Mapping[str, str]) -> RealtimeTail:
    """The tail of a view with this fingerprint over several sources; `parts` has that of the view's part of each source."""
    return _unite({source: _of_whole(tail, parts[source], fingerprint) for source, tail in tails.items()})


def cut_off(tail: RealtimeTail, end: Position) -> RealtimeTail | None:
    """The tail up to a position at which one of its commits ends, or up to its cut; None if none ends there.

    Of several sources each part has to have such a commit.
    """
    if not tail.parts:
        ends = [tail.cut, *(commit.end for commit in tail.commits)]
        return replace(tail, end=end, commits=tail.commits[: ends.index(end)], hot=()) if end in ends else None
    shorter = {source: cut_off(part, part_of(end, source)) for source, part in tail.parts.items()}
    whole = {source: part for source, part in shorter.items() if part is not None}
    return _unite(whole) if len(whole) == len(shorter) else None


def up_to(tail: RealtimeTail, end: Position) -> RealtimeTail:
    """The tail up to a position at which one of its commits ends, hot ones among them, or to its cut; each part of several."""
    if not tail.parts:
        return tail.up_to(end)
    return _unite({source: part.up_to(part_of(end, source)) for source, part in tail.parts.items()})


def _of_whole(tail: RealtimeTail, part: str, whole: str) -> RealtimeTail:
    """The tail of a part, whose commits have its states as states of the whole."""

    def of(commit: Commit) -> Commit:
        return replace(
            commit,
            partials={whole: commit.partials[part]} if part in commit.partials else {},
            rejected={whole: commit.rejected[part]} if part in commit.rejected else {},
            after_final={whole: commit.after_final[part]} if part in commit.after_final else {},
            maxima={},
            watermark=None,
            last_records={},
        )

    return replace(tail, commits=tuple(map(of, tail.commits)), hot=tuple(map(of, tail.hot)), cold=None)


def _unite(parts: Mapping[str, RealtimeTail]) -> RealtimeTail:
    """One tail of several: the commits in the order of their times, each source's in its own, then the hot commits likewise."""
    cut = unite({source: tail.cut for source, tail in parts.items()})
    problem = next((tail.problem for tail in parts.values() if tail.problem is not None), None)
    if problem is not None:
        return RealtimeTail(cut, cut, problem=problem, parts=parts)
    positions = {source: tail.cut for source, tail in parts.items()}
    commits = _chain({source: tail.commits for source, tail in parts.items()}, positions)
    # Hot commits of one epoch that start at one position only differ in how they divide the log: so the epochs of all are one.
    epoch = pair_numbers([tail.hot[0].epoch + 1 if tail.hot else 0 for tail in parts.values()])
    hot = [replace(commit, epoch=epoch) for commit in _chain({source: tail.hot for source, tail in parts.items()}, positions)]
    end = unite({source: tail.end for source, tail in parts.items()})
    behind = any(tail.behind_bridge for tail in parts.values())
    return RealtimeTail(cut, end, tuple(commits), behind_bridge=behind, hot=tuple(hot), parts=parts)


def _chain(chains: Mapping[str, Sequence[Commit]], positions: dict[str, Position]) -> list[Commit]:
    """The commits of all sources from these positions on, which move to their ends: each starts where the one before it ends."""
    order: list[tuple[datetime, int, str, Commit]] = []
    for source, commits in chains.items():
        latest = _FIRST
        for number, commit in enumerate(commits):
            latest = max(latest, commit.at or latest)
            order.append((latest, number, source, commit))
    chain = []
    for *_, source, commit in sorted(order, key=lambda each: (each[0], each[2], each[1])):
        start = unite(positions)
        positions[source] = commit.end
        chain.append(replace(commit, start=start, end=unite(positions)))
    return chain
