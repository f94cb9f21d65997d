"""Why a row of an answer is what it is: its events, and the answer computed again from them by the plain oracle.

Nothing here computes a number by a way of its own. The row is the reader's, what each layer contributed is the reader's for that
layer, and the plain oracle, which shares no code with the kernel, says what the events mean.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

import pyarrow as pa

from tandem.ledger.log.erasures import Erasures
from tandem.ledger.publish.publications import Publications
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Absent, Value, given
from tandem.serving.read.provenance import Layer, Provenance
from tandem.serving.read.selection import ALWAYS, BadSelection, Between, check_start, later
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.why.evidence import SourceEvidence, gather
from tandem.serving.why.finality import ANOTHER_RELEASE, FinalSince, final_since, may_change
from tandem.serving.why.near_misses import NearMisses, near_misses
from tandem.serving.why.part_log import OF_A_ROW, AskedRow, PartLog, WorkBounds
from tandem.serving.why.row_groups import ALL_TIMES, Span
from tandem.serving.why.topic_tail import LogTail
from tandem.views import oracle
from tandem.views.arrow import arrays, python_values
from tandem.views.composite.current_rows import RowsView
from tandem.views.composite.rollup import root
from tandem.views.composite.table import looked_up
from tandem.views.composite.together import parts
from tandem.views.instant import utc_text
from tandem.views.kernel.rows import written
from tandem.views.measures.derived import Derived
from tandem.views.oracle.answers import Group
from tandem.views.oracle.counted_events import CountedRow
from tandem.views.view import View, answer_schema, bind, group_columns, state_schema
from tandem.views.windows import Calendar, Hopping, Session, Tumbling
from tandem.views.windows.placement import WINDOW_COLUMNS, WINDOW_STATE

Verdict = Literal["equal", "within its error", "differs", "not computed again"]
_SHOWN_WINDOWS: Final = 5


@dataclass(frozen=True)
class MeasureCheck:
    """A measure of the row, and what the oracle computes from the row's events, as JSON has them."""

    measure: str
    answer: Any
    again: Any
    verdict: Verdict


@dataclass(frozen=True)
class Why:
    """What is behind one row of a view at one position.

    Args:
        row: the row as JSON has it, None if nothing was counted.
        layers: the row that the events of each layer make alone, None where they make none; a window may differ between layers.
        sources: what each source gives, and the rejected records that may have been meant for the row.
        checks: the measures, computed again.
        state: the label of the row's window; None without a row.
    """

    view: View
    key: Mapping[str, Any] = field(hash=False)
    window: tuple[datetime | None, datetime | None]
    row: Mapping[str, Any] | None = field(hash=False)
    provenance: Provenance = field(repr=False)
    layers: Mapping[Layer, Mapping[str, Any] | None] = field(hash=False)
    groups: Mapping[Group, Sequence[CountedRow]] = field(hash=False, repr=False)
    sources: tuple[tuple[SourceEvidence, NearMisses], ...] = field(repr=False)
    checks: tuple[MeasureCheck, ...]
    state: str | None
    final: FinalSince | None
    may_change: tuple[str, ...]
    erased: int

    @property
    def agrees(self) -> bool:
        """Whether the row is what its events make."""
        return not any(check.verdict == "differs" for check in self.checks)

    def events_of(self, evidence: SourceEvidence, measures: Sequence[str] = ()) -> list[CountedRow]:
        """The rows of a source that the row of the answer counts, in the order of their times, then of the log.

        With `measures` only those that one of them reads; all for a derived measure, which reads other measures.
        """
        of = {id(row) for rows in evidence.groups.values() for row in rows}
        rows = [row for rows in self.groups.values() for row in rows if id(row) in of]
        if measures and not any(isinstance(self.view.measures[name], Derived) for name in measures):
            rows = [row for row in rows if any(name in row.inputs for name in measures)]
        return sorted(rows, key=lambda row: (row.at, row.generation, row.place))


@dataclass(frozen=True)
class WhyReader:
    """Explains rows at the snapshot that a reader has pinned."""

    reader: Reader
    tail: LogTail
    most: WorkBounds = OF_A_ROW

    def why(self, name: str, keys: Mapping[str, pa.Scalar], between: Between = ALWAYS) -> Why:
        """Why the one row of these keys, and of the windows that start in a range, is what it is.

        Raises BadSelection for keys that do not choose one row and for a view of which no row has events of its own, ReadFailed,
        Unreadable.
        """
        view = self.reader.view(name)
        _check(view, keys)
        check_start(view, between[0])
        snapshot, layer = self.reader.snapshot(), self._layer
        answer = self._answer(name, keys, between, layer)
        span = _span(view, answer, between)
        asked = AskedRow(view, _key_table(view, keys), span, self.most)
        sources = tuple(self._source(snapshot, part, asked, layer) for part in parts(root(view)))
        start, end = _window(answer, between, view)
        kept_from = answer.provenance.kept_from
        left = kept_from is not None and start is not None and start < kept_from  # then its events count no more
        groups = {} if left else _groups(view, answer, asked, [evidence for evidence, _ in sources])
        tables = self.reader.tables
        erased = sum(Erasures(tables).count_within(evidence.part.source.name, evidence.covered) for evidence, _ in sources)
        state = None if isinstance(answer, Absent) else answer.table[WINDOW_STATE.name][0].as_py()
        gaps = [gap for gap in answer.provenance.gaps if gap.name not in answer.provenance.accepted]
        final = final_since(snapshot, view, end, Publications(tables))
        return Why(
            view,
            {name: written(arrays.whole(asked.key[name]), asked.key.schema.field(name))[0] for name in view.keys},
            (start, end),
            None if isinstance(answer, Absent) else answer.rows()[0],
            answer.provenance,
            {
                side: self._layer_row(name, keys, answer, between, side)
                for side in ("batch", "speed")
                if layer in (side, "merged")
            },
            groups,
            sources,
            tuple(_checks(view, answer, groups)),
            state,
            final,
            (ANOTHER_RELEASE,)
            if left
            else (*may_change(snapshot, view, final=final is not None, end=end, accepted_only=not gaps),),
            erased,
        )

    @property
    def _layer(self) -> Layer:
        return "merged" if self.reader.publication is None else "batch"

    def _answer(self, name: str, keys: Mapping[str, pa.Scalar], between: Between, layer: Layer) -> Value | Absent:
        answer = given(self.reader.answer(name, keys=keys, between=between, layer=layer))
        if isinstance(answer, Value) and answer.table.num_rows > 1:
            starts = [utc_text(at) for at in answer.table[WINDOW_COLUMNS[0]].to_pylist()]
            shown = ", ".join(starts[:_SHOWN_WINDOWS])
            raise BadSelection(
                f"view {name!r} has {len(starts)} windows of this key; name the start of one, such as --window {starts[-1]} "
                f"(the first are {shown})"
            )
        return answer

    def _layer_row(
        self, name: str, keys: Mapping[str, pa.Scalar], answer: Value | Absent, between: Between, layer: Layer
    ) -> Mapping[str, Any] | None:
        """The row of a layer that has the same window, or overlaps it."""
        start, end = _window(answer, between, answer.view)
        bounded = start is not None and not bind(answer.view).placement.in_order
        wide = (start, end) if bounded and bind(answer.view).placement.timing.grace else between
        rows = given(self.reader.answer(name, keys=keys, between=wide, layer=layer)).rows()
        return rows[0] if len(rows) == 1 else None

    def _source(self, snapshot: Snapshot, part: View, asked: AskedRow, layer: Layer) -> tuple[SourceEvidence, NearMisses]:
        tail = snapshot.of(root(asked.view)).tails[part.source.name]
        names, reader = looked_up(part), snapshot.reader
        below = {} if reader is None else reader.versions(snapshot.publication, snapshot.tails, names, layer="batch")
        above = {} if reader is None else reader.versions(snapshot.publication, snapshot.tails, names, layer=layer)
        tables, end = self.reader.tables, tail.cut if layer == "batch" else tail.end
        evidence = gather(PartLog(tables, part, tail.cut, end, below, above, self.tail), asked)
        return evidence, near_misses(tables, part.source, evidence.covered, asked, evidence.topic_rejects)


def _check(view: View, keys: Mapping[str, pa.Scalar]) -> None:
    """Raise BadSelection for a view or keys without one row whose events can be listed."""
    if isinstance(view, RowsView):
        raise BadSelection(
            f"view {view.name!r} counts the rows of table {view.parent.name!r}, not events; ask about a row of the table"
        )
    if missing := [name for name in view.keys if name not in keys]:
        raise BadSelection(
            f"view {view.name!r}: a row has a value for each key; add {' '.join(f'--key {n}=...' for n in missing)}"
        )


def _key_table(view: View, keys: Mapping[str, pa.Scalar]) -> pa.Table:
    schema = pa.schema([state_schema(view).field(name) for name in view.keys])
    columns = [python_values.array([keys[field.name].as_py()], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _window(answer: Value | Absent, between: Between, view: View) -> tuple[datetime | None, datetime | None]:
    """The bounds of the row's window, also of one in which nothing was counted."""
    if isinstance(answer, Value):
        start, end = (answer.table[name][0].as_py() for name in WINDOW_COLUMNS)
        return start, end
    start = between[0]
    return (None, None) if start is None else (start, end_of(view, start))


def end_of(view: View, start: datetime) -> datetime | None:
    """Where a window that starts then ends; of a session, that of one event."""
    match view.window:
        case Tumbling() | Hopping():
            return later(start, view.window.size)
        case Session():
            return later(start, view.window.gap)
        case Calendar():
            slice_at = bind(view).placement.timing.slice_at
            return None if slice_at is None else slice_at(start)[1]
    return None


def _span(view: View, answer: Value | Absent, between: Between) -> Span:
    """The event times of the window; open where windows follow the order of the log, or where nobody knows them."""
    if bind(view).placement.in_order:
        return ALL_TIMES
    return _window(answer, between, view)


def _groups(
    view: View, answer: Value | Absent, asked: AskedRow, sources: Sequence[SourceEvidence]
) -> dict[Group, list[CountedRow]]:
    """The oracle's groups of the row's window: of a session all that overlap it, for it may be one of several."""
    whole: dict[Group, list[CountedRow]] = {}
    for evidence in sources:
        for group, rows in evidence.groups.items():
            whole.setdefault(group, []).extend(rows)
    number = len(asked.values)
    low, high = asked.span
    if bind(view).placement.timing.grace and low is not None and high is not None:
        return {group: rows for group, rows in whole.items() if group[number] < high and low < group[number + 1]}
    if isinstance(answer, Value):
        row = answer.table.select(group_columns(view)).to_pylist()[0]
        wanted = tuple(row.values())
        return {group: rows for group, rows in whole.items() if group == wanted}
    return {group: rows for group, rows in whole.items() if group[number : number + 2] == asked.span}


def _checks(view: View, answer: Value | Absent, groups: Mapping[Group, Sequence[CountedRow]]) -> list[MeasureCheck]:
    """Each measure of the row beside what the oracle computes."""
    schema = answer_schema(view)
    again = next(iter(oracle.answers(view, groups).values()), {})
    differences = {each.measure: each for each in oracle.compare(view, answer.table, groups)}
    shown = {} if isinstance(answer, Absent) else answer.rows()[0]
    checks = []
    for name in view.measures:
        difference, of = differences.get(name), schema.field(name)
        if difference is None:
            verdict: Verdict = "not computed again"
        elif difference.differ:
            verdict = "differs"
        else:
            verdict = "within its error" if difference.unequal else "equal"
        value = written(python_values.array([again[name]], of.type), of)[0] if name in again and difference is not None else None
        checks.append(MeasureCheck(name, shown.get(name), value, verdict))
    return checks
