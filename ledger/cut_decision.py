"""Choose and reserve a cut: a committed boundary of the realtime table, reserved before a batch run folds anything.

    TandemError
    ├── NotABoundary     no commit starts or ends at the position; compaction may have replaced it
    ├── OutOfReach       the realtime views counted records that the archive can never get and has not recorded as a gap
    └── Passed           the chain has already passed the end that the bridge was to reach

A reservation is a mark in the realtime table itself. So a reservation and a compaction exclude each other by conditional
commits: the second one decides again. A reservation is void once the release's published cut has passed it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

from deltalake import DeltaTable

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.retries import commit_again
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START, Position, distance, upper
from tandem.ledger.publish.standing import cut_of
from tandem.ledger.realtime.commit_files import open_or_create, read_spans, spans_of, to_rows
from tandem.ledger.realtime.commits import Commit, Span
from tandem.ledger.realtime.tiling import boundary, chain, end
from tandem.views.errors import TandemError


class NotABoundary(TandemError, code="cut-not-a-boundary"):
    """No commit of the release's chain starts or ends at the position."""


class Passed(TandemError, code="cut-passed"):
    """The chain has already passed the end of the bridge."""


class OutOfReach(TandemError, code="cut-out-of-reach"):
    """The speed layer has counted records that the archive can never get, and no gap is recorded for them yet."""


@dataclass(frozen=True)
class Choice:
    """The cut to take, and whether a bridge from the chain's end to it must be committed first."""

    cut: Position
    bridge: bool


def choose(
    spans: Iterable[Span], *, cut: Position, archive_end: Position, patience: int, tables: Mapping[str, Position] | None = None
) -> Choice:
    """Choose the largest committed boundary of the chain from the live `cut` on that lies at or below the archive's end.

    Without such a boundary the choice is the live cut itself. If the whole chain ends more than `patience` offsets below the
    archive's end, the speed layer is too far behind (with patience 0: absent); the choice is then the archive's end, over a
    bridge. `archive_end` is the position that archive, events and quarantine have all reached. Raises TandemError if the
    commits do not tile the log.

    The cut passes no commit that has looked up in versions beyond the cuts of these `tables`, by source: else the
    batch's answers would be of older versions than those that were served.
    """
    whole = chain(spans, cut, across_bridges=True)
    if whole.problem:
        raise TandemError(f"cannot choose a cut: {whole.problem}")
    passable = list(takewhile(lambda span: _knew_no_more(span, tables or {}), whole.commits))
    if len(passable) == len(whole.commits) and whole.end.at_or_below(archive_end) and distance(whole.end, archive_end) > patience:
        return Choice(archive_end, bridge=True)
    reached = [span.end for span in passable if span.end.at_or_below(archive_end)]
    return Choice(reached[-1] if reached else cut, bridge=False)


def _knew_no_more(span: Span, tables: Mapping[str, Position]) -> bool:
    """Whether a commit has looked up in no version beyond these positions."""
    return all(span.looked_up[name].most.at_or_below(end) for name, end in tables.items() if name in span.looked_up)


def take(
    tables: Tables,
    release: int,
    source: str,
    *,
    archive_end: Position,
    patience: int,
    by: str,
    at: datetime,
    looked_up: Mapping[str, Position] | None = None,
) -> Position:
    """Choose a cut, bridge to it if needed, and reserve it: then a batch run may fold everything below it.

    `looked_up` are the cuts of the tables in which its views look up. Starts over if the
    speed layer, a compaction or another run commits in between. Raises OutOfReach.
    """
    while True:
        spans = spans_of(tables, release, source)
        _refuse_out_of_reach(tables, source, upper(*(span.end for span in spans)))
        choice = choose(spans, cut=cut_of(tables, release, source), archive_end=archive_end, patience=patience, tables=looked_up)
        try:
            if choice.bridge:
                bridge(tables, release, source, to=choice.cut, by=by, at=at)
            reserve(tables, release, source, choice.cut, by=by, at=at)
        except (NotABoundary, Passed):
            continue
        return choice.cut


def _refuse_out_of_reach(tables: Tables, source: str, reached: Position) -> None:
    """Raise OutOfReach if realtime views counted more of a topic than is archived, and the topic was since created again."""
    ledger = ArchiveLedger(tables, source)
    names = ledger.topic_names()
    runs = ledger.runs()
    archived = runs[-1].end if runs else LOG_START
    newest = {name: topic for topic, name in names.items()}
    for (topic, partition), offset in reached.items():
        held = archived.get((topic, partition), 0)
        if topic in names and newest[names[topic]] != topic and held < offset:
            raise OutOfReach(
                f"source {source!r}: the speed layer has counted partition {partition} of topic {names[topic]!r} (id {topic}) up "
                f"to offset {offset}, but the archive has it up to {held}, and that topic was deleted, so no cut can pass it; "
                "`tandem archive` records the lost offsets as a gap"
            )


def reserve(tables: Tables, release: int, source: str, position: Position, *, by: str, at: datetime) -> None:
    """Reserve a boundary: no compaction crosses it until the release's published cut has passed it.

    Idempotent. Raises NotABoundary, Unwritable.
    """

    def mark(spans: list[Span]) -> Commit | None:
        if not boundary(spans, position):
            raise NotABoundary(f"{position} cannot be reserved for source {source!r}: no commit of release {release} ends there")
        if any(span.kind == "cut" and span.start == position for span in spans):
            return None
        return Commit(position, position, _epoch(spans), "cut", by=by, at=at)

    _commit(tables, release, source, mark)


def begin(tables: Tables, release: int, source: str, position: Position, *, by: str, at: datetime) -> None:
    """Start the release's realtime table at a position, if it is empty: its batch views have what lies below.

    Raises Unwritable.
    """
    _commit(tables, release, source, lambda spans: None if spans else Commit(position, position, 0, "cut", by=by, at=at))


def reserved(tables: Tables, release: int, source: str) -> list[Position]:
    """The reserved cuts that the release's published cut has not passed yet, lowest first."""
    live = cut_of(tables, release, source)
    marks = {span.start for span in spans_of(tables, release, source) if span.kind == "cut"}
    return sorted((at for at in marks if at == live or not at.at_or_below(live)), key=lambda at: distance(Position(), at))


def bridge(tables: Tables, release: int, source: str, *, to: Position, by: str, at: datetime) -> None:
    """Commit a bridge: a range without contributions, from the table's end (of an empty table: the live cut) to `to`.

    Does nothing if the table ends at `to`. Readers stop before a bridge until a publication's cut has passed it. The next commit
    of a running speed layer fails its range check, and the layer continues from `to`. Raises Passed, Unwritable.
    """

    def range_(spans: list[Span]) -> Commit | None:
        start = end(spans)
        start = cut_of(tables, release, source) if start is None else start
        if start == to:
            return None
        if not start.at_or_below(to):
            raise Passed(f"no bridge to {to} for source {source!r}: release {release} has already committed up to {start}")
        return Commit(start, to, _epoch(spans), "bridge", by=by, at=at)

    _commit(tables, release, source, range_)


def _commit(tables: Tables, release: int, source: str, derive: Callable[[list[Span]], Commit | None]) -> None:
    """Commit what `derive` returns for the table's spans; derive again after a conflict."""
    known: dict[str, Span] = {}

    def attempt(handle: DeltaTable) -> None:
        nonlocal known
        known = read_spans(handle, known)
        commit = derive(list(known.values()))
        if commit is not None:
            delta_tables.conditional_append(handle, to_rows(commit, handle))

    commit_again(open_or_create(tables, release, source), attempt)


def _epoch(spans: Iterable[Span]) -> int:
    """The newest epoch: batch runs do not change the speed layer's claim."""
    return max((span.epoch for span in spans), default=0)
