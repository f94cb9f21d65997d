"""The realtime partial that a reader caches for one view: merged runs of commits, from the cut on.

A run is more than twice as large as the next, so that adding a commit merges few states however long the tail is, and a lookup
of one key filters a handful of tables. A merged partial cannot be split: a run that no longer starts at the cut, or no longer
ends where a commit ends, is folded again from the commits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tandem.ledger.log.positions import Position
from tandem.ledger.realtime.commits import Commit
from tandem.views.kernel.kernel import Partial, merge
from tandem.views.view import View


@dataclass(frozen=True)
class MergedCommits:
    """The merged partial of the commits that tile `[start, end)`."""

    start: Position
    end: Position
    partial: Partial


Runs = tuple[MergedCommits, ...]
Decode = Callable[[Commit], Partial]


def follow(view: View, held: Runs, commits: Sequence[Commit], decode: Decode) -> Runs:
    """The runs of a chain of commits, which tile a range in order; those of `held` that fall on its boundaries are reused.

    Only commits past the reused runs are decoded.
    """
    runs = _reusable(held, commits)
    done = next((n for n, commit in enumerate(commits, 1) if runs and commit.end == runs[-1].end), 0)
    for commit in commits[done:]:
        runs = _append(view, runs, MergedCommits(commit.start, commit.end, decode(commit)))
    return runs


def _reusable(held: Runs, commits: Sequence[Commit]) -> Runs:
    """The longest prefix of the cached runs that starts where the chain starts and ends where one of its commits ends."""
    if not held or not commits or held[0].start != commits[0].start:
        return ()
    ends = {commit.end for commit in commits}
    return held[: next((n for n in range(len(held), 0, -1) if held[n - 1].end in ends), 0)]


def _append(view: View, runs: Runs, run: MergedCommits) -> Runs:
    """The runs with one more, merged into its predecessors while they are at most twice as large."""
    while runs and runs[-1].partial.states.num_rows <= 2 * run.partial.states.num_rows:
        run = MergedCommits(runs[-1].start, run.end, merge(view, [runs[-1].partial, run.partial]))
        runs = runs[:-1]
    return (*runs, run)
