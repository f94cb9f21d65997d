"""Gather the stored states that a rebuild merges with what it folds, or compares with it: in which files they are."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from tandem.batch.fold import fold_job
from tandem.batch.rebuild.inputs import Comparison, EarlierStates, ViewTarget
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.publish.batch_parts import BatchPart, BatchView, files_with_later

_COMMITS: Final = 32
"""Files of the realtime table that one task reads."""


@dataclass(frozen=True)
class StateFiles:
    """The stored states that a rebuild reads, and where it writes.

    Args:
        tables: where the files of each view are written.
        added: of each view that gained measures, these and where its other states are.
        merged: files of states that are merged with what is folded.
        compared: files of states that are compared with it.
        pairs: the sides to compare with each other.
        kept_from: by view of which windows have left, the start of the first that stays.
        in_log_order: the windows of a view depend on the order of the log.
    """

    tables: Mapping[str, Location] = field(hash=False)
    added: Mapping[str, fold_job.Added] = field(hash=False)
    merged: tuple[fold_job.StatesFile, ...]
    compared: tuple[fold_job.StatesFile | fold_job.Commits, ...]
    pairs: tuple[fold_job.Pair, ...]
    in_log_order: bool
    kept_from: Mapping[str, datetime] = field(default_factory=dict, hash=False)

    @property
    def merged_rows(self) -> int:
        """About how many states are merged."""
        return sum(file.rows for file in self.merged)


def gather_states(tables: Tables, targets: Mapping[str, ViewTarget], comparison: Comparison) -> StateFiles:
    """List the files of the states to merge and to compare. Raises Unreadable."""
    return StateFiles(
        tables={view: Location.of(tables, target.batch_view.address(tables, view)) for view, target in targets.items()},
        added=_added(tables, targets),
        merged=tuple(_merged(tables, targets)),
        compared=tuple(_compared(tables, targets, comparison)),
        pairs=comparison.pairs,
        in_log_order=any(target.in_log_order for target in targets.values()),
        kept_from={view: start for view, target in targets.items() if (start := target.batch_view.first_window) is not None},
    )


def _added(tables: Tables, targets: Mapping[str, ViewTarget]) -> dict[str, fold_job.Added]:
    """Of each view that gained measures: these, and where its other states are."""
    return {
        view: fold_job.Added(target.gained.measures, Location.of(tables, target.gained.there.address(tables, view)))
        for view, target in targets.items()
        if target.gained is not None
    }


def _merged(tables: Tables, targets: Mapping[str, ViewTarget]) -> Iterator[fold_job.StatesFile]:
    """The files of the parts that are merged with what is folded. Raises Unreadable."""
    for view, target in targets.items():
        yield from _files(tables, view, target.batch_view, target.merged)
    for view, target in targets.items():
        if target.gained is not None:
            yield from _files(tables, view, target.gained.there, target.gained.there.parts)


def _compared(
    tables: Tables, targets: Mapping[str, ViewTarget], comparison: Comparison
) -> Iterator[fold_job.StatesFile | fold_job.Commits]:
    """The files of the states to compare with what is folded. Raises Unreadable."""
    fingerprints = {view: target.batch_view.fingerprint for view, target in targets.items()}
    if comparison.served is not None:
        for view, parts in comparison.served.parts.items():
            yield from (replace(file, side="served") for file in _files(tables, view, targets[view].batch_view, parts))
        yield from _commits(comparison.served, fingerprints, "served")
    if comparison.replayed is not None:
        yield from _commits(comparison.replayed, fingerprints, "replayed")


def _files(tables: Tables, view: str, there: BatchView, parts: tuple[BatchPart, ...]) -> Iterator[fold_job.StatesFile]:
    """The files of parts of a batch view; each part's states may be replaced by the parts after it."""
    files = files_with_later(tables, there.address(tables, view), parts)
    yield from (fold_job.StatesFile(view, file.path, file.rows, later) for file, later in files)


def _commits(states: EarlierStates, fingerprints: Mapping[str, str], side: fold_job.Side) -> Iterator[fold_job.Commits]:
    for start in range(0, len(states.commits), _COMMITS):
        yield fold_job.Commits(states.realtime, states.commits[start : start + _COMMITS], fingerprints, side)
