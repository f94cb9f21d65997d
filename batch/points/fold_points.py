"""The tasks of `points`: send what can count for the spine's keys to buckets of keys, and fold it there as of each time.

A view groups by its keys, so what one key knows at a time does not concern another: the first points of all keys are folded at
once, then the second ones, and so on. It is the kernel that folds, over the events that each key knew at its point.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.batch.points.copies import UNTIL
from tandem.batch.points.log_of_part import LogOfPart, events_with_until
from tandem.batch.points.spine import AT, KEY, ROW, WINDOW
from tandem.ledger.delta.location import Location, opened
from tandem.ledger.files.splits import Slice
from tandem.ledger.stored_states import by_bucket
from tandem.views.arrow import arrays
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.composite.rollup import root
from tandem.views.composite.together import parts
from tandem.views.kernel import kernel
from tandem.views.kernel.kernel import Partial
from tandem.views.kernel.look_up import with_rows
from tandem.views.kernel.rows import ordered
from tandem.views.project import project
from tandem.views.source.log_order import log_order
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.source import Source, position_columns
from tandem.views.source.value_types import normalised
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.sql.syntax import enclosed
from tandem.views.view import View, bind
from tandem.views.windows import WINDOW_COLUMNS

Known = Literal["append", "event"]
"""Which events a point knows: those that the log had at its time, or all that had happened by then, whenever they came."""

Times = npt.NDArray[np.int64]

_ARRIVAL: Final = "_arrival"
_EVENT: Final = "_event"
_NUMBER: Final = "_number"
_ROUND: Final = "_round"
_ROWS: Final = "_rows"
_POINTS: Final = "_points"
_NEVER: Final = np.iinfo(np.int64).min
_ALWAYS: Final = np.iinfo(np.int64).max


@dataclass(frozen=True)
class PointsJob:
    """What a task needs.

    Args:
        definitions: the release's files.
        view: the name of the view.
        measures: those that points get.
        known: which events a point knows.
        logs: by part of the view.
        scratch: the location of scratch files.
        keys: the scratch file of the spine's keys; empty for a view without keys.
        buckets: the number of tasks that fold.
    """

    definitions: Mapping[str, bytes] = field(hash=False)
    view: str
    measures: tuple[str, ...]
    knowledge: Known
    logs: Mapping[str, LogOfPart] = field(hash=False)
    scratch: Location
    keys: str
    buckets: int

    def view_of_release(self) -> View:
        """The view."""
        return project.load_files(self.definitions).every_view[self.view]


@dataclass(frozen=True)
class SpinePiece:
    """Some rows of the spine, as Arrow IPC."""

    rows: bytes


@dataclass(frozen=True)
class LogPiece:
    """A slice of a part's events, or a scratch file of those with copies."""

    part: str
    events: Slice | str


@dataclass(frozen=True)
class _Sent:
    """Rows of a part for a bucket of keys, or, without a part, of the spine."""

    part: str | None
    rows: bytes


def send(job: PointsJob, piece: SpinePiece | LogPiece) -> Iterator[tuple[int, _Sent]]:
    """The rows of a piece by bucket: rows of equal keys go to the same one."""
    view = job.view_of_release()
    keys = [KEY.format(number) for number, _ in enumerate(view.keys)]
    if isinstance(piece, SpinePiece):
        for bucket, some in by_bucket(from_ipc(piece.rows), keys, job.buckets):
            yield bucket, _Sent(None, some)
        return
    part = next(part for part in parts(root(view)) if part.name == piece.part)
    wanted = opened(job.scratch, job.keys).read(use_threads=False) if keys else None
    log = job.logs[part.name]
    for events in events_with_until(part, log, job.scratch, piece.events):
        rows = _of_keys(_rows(part, view, events, log), keys, wanted)
        for bucket, some in by_bucket(rows, keys, job.buckets):
            yield bucket, _Sent(part.name, some)


def _rows(part: View, view: View, events: pa.Table, log: LogOfPart) -> pa.Table:
    """The rows that the part reads, each with its keys, the arrival of its event, and until when the event counts."""
    source = part.source
    stamped = events.append_column(_ARRIVAL, pa.array(log.arrival.of(events)))
    rows = kernel.prepare(source, events.drop_columns(UNTIL.name), log.generations).events
    stamps = stamped.select([*position_columns(source), _ARRIVAL, UNTIL.name])
    if source.prepare is None:
        rows = rows.append_column(_ARRIVAL, stamps[_ARRIVAL]).append_column(UNTIL, stamps[UNTIL.name])
    else:
        rows = _with_stamps(source, rows, stamps)
    rows = rows.append_column(_EVENT, rows[source.time_column].cast(pa.int64()))
    for number, column in enumerate(_keys(view, part, rows)):
        rows = rows.append_column(KEY.format(number), column)
    return rows


def _with_stamps(source: Source, rows: pa.Table, stamps: pa.Table) -> pa.Table:
    place = ", ".join(map(quoted, position_columns(source)))
    numbered = rows.select([*position_columns(source)]).append_column(_NUMBER, arrays.row_numbers(rows.num_rows))
    sql = f"SELECT {_ARRIVAL}, {UNTIL.name} FROM {_ROWS} JOIN {_POINTS} USING ({place}) ORDER BY {_NUMBER}"
    results = engine.query(sql, {_ROWS: numbered, _POINTS: stamps})
    return rows.append_column(_ARRIVAL, results[_ARRIVAL]).append_column(UNTIL, results[UNTIL.name])


def _keys(view: View, part: View, rows: pa.Table) -> list[pa.Array]:
    """The values of the view's keys; NULL where an expression fails, which the kernel then rejects."""
    if not view.keys:
        return []
    keys = bind(view).keys
    read = with_rows(part, rows, {}).append_column(_NUMBER, arrays.row_numbers(rows.num_rows))
    chosen = ", ".join(f"TRY({normalised(enclosed(key.text), key.type)}) AS {quoted(name)}" for name, key in keys)
    results = [
        result for _, result in engine.halved(f"SELECT {_NUMBER}, {chosen} FROM {_ROWS}", _ROWS, read) if result is not None
    ]
    values = pa.concat_tables(results) if results else None
    columns_ = []
    for name, key in keys:
        if values is None:
            columns_.append(pa.nulls(rows.num_rows, key.type.arrow))
            continue
        at = np.full(rows.num_rows, -1, dtype=np.int64)
        at[values[_NUMBER].to_numpy()] = np.arange(values.num_rows)
        where = arrays.from_numpy(at, pa.int64(), at >= 0)
        columns_.append(arrays.whole(values[name].take(where)).cast(key.type.arrow))
    return columns_


def _of_keys(rows: pa.Table, keys: Sequence[str], wanted: pa.Table | None) -> pa.Table:
    """The rows with the spine's keys."""
    if wanted is None or not rows.num_rows:
        return rows
    same = " AND ".join(f"{_ROWS}.{name} IS NOT DISTINCT FROM {_POINTS}.{name}" for name in keys)
    numbered = rows.select([*keys]).append_column(_NUMBER, arrays.row_numbers(rows.num_rows))
    sql = f"SELECT {_NUMBER} FROM {_ROWS} SEMI JOIN {_POINTS} ON {same} ORDER BY 1"
    results = engine.query(sql, {_ROWS: numbered, _POINTS: wanted})
    return rows.take(results[_NUMBER])


def fold(job: PointsJob, values: Iterator[_Sent]) -> Iterator[bytes]:
    """The measures of a bucket's rows of the spine, as Arrow IPC with `ROW`; nothing for a row of which nothing was known."""
    view, sent = job.view_of_release(), list[_Sent](values)
    spine = [from_ipc(each.rows) for each in sent if each.part is None]
    if not spine:
        return
    keys = [KEY.format(number) for number, _ in enumerate(view.keys)]
    points = _in_rounds(pa.concat_tables(spine).combine_chunks(), keys)
    logs = []
    for part in parts(root(view)):
        some = [from_ipc(each.rows) for each in sent if each.part == part.name]
        if some:
            rows = pa.concat_tables(some).combine_chunks()
            rows = rows.take(pa.array(log_order(rows, job.logs[part.name].generations)))
            logs.append((part, rows.drop_columns(keys), _numbers_of_keys(rows, points, keys)))
    rounds = points[_ROUND].to_numpy()
    order = np.argsort(rounds, kind="stable")
    for chosen in np.split(order, np.flatnonzero(np.diff(rounds[order])) + 1) if len(order) else ():
        some = points.take(pa.array(chosen))
        times = np.full(int(points[_NUMBER].to_numpy().max()) + 1, _NEVER, dtype=np.int64)
        times[some[_NUMBER].to_numpy()] = some[AT].to_numpy()
        folded = [_fold_part(view, part, rows.filter(pa.array(_knowledge_of(job, rows, times, of)))) for part, rows, of in logs]
        if folded:
            yield from _answers(job, view, some, kernel.merge(view, folded))


def _in_rounds(points: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The points with two numbers from 0: that of their key, and that of their time among the times of the key."""
    named = ", ".join(keys) or "NULL"
    sql = (
        f"SELECT *, dense_rank() OVER (ORDER BY {named}) - 1 AS {_NUMBER}, "
        f"dense_rank() OVER (PARTITION BY {named} ORDER BY {AT}) - 1 AS {_ROUND} FROM {_POINTS} ORDER BY {ROW}"
    )
    return engine.query(sql, {_POINTS: points})


def _numbers_of_keys(rows: pa.Table, points: pa.Table, keys: Sequence[str]) -> npt.NDArray[np.int64]:
    """By row the number of its key."""
    if not keys:
        return np.zeros(rows.num_rows, dtype=np.int64)
    named = ", ".join(keys)
    same = " AND ".join(f"{_ROWS}.{name} IS NOT DISTINCT FROM k.{name}" for name in keys)
    sql = (
        f"SELECT k.{_NUMBER} AS {_NUMBER} FROM {_ROWS} JOIN (SELECT DISTINCT {named}, {_NUMBER} FROM {_POINTS}) k ON {same} "
        f"ORDER BY {_ROWS}.{_ROUND}"
    )
    numbered = rows.select([*keys]).append_column(_ROUND, arrays.row_numbers(rows.num_rows))
    numbers: npt.NDArray[np.int64] = engine.query(sql, {_ROWS: numbered, _POINTS: points})[_NUMBER].to_numpy()
    return numbers


def _knowledge_of(
    job: PointsJob, rows: pa.Table, times: npt.NDArray[np.int64], of: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    at = times[of]
    until = rows[UNTIL.name]
    if job.knowledge == "event":
        happened: npt.NDArray[np.bool_] = (rows[_EVENT].to_numpy() <= at) & until.is_null().to_numpy()
        return happened
    counted: npt.NDArray[np.bool_] = (rows[_ARRIVAL].to_numpy() <= at) & (at < until.fill_null(_ALWAYS).to_numpy())
    return counted


def _fold_part(view: View, part: View, rows: pa.Table) -> Partial:
    folded = kernel.partial(part, rows.drop_columns([_ARRIVAL, UNTIL.name, _EVENT]), EMPTY)
    states = kernel.settle(part, folded.states)
    return Partial(states if view is part else kernel.roll(view, states))


def _answers(job: PointsJob, view: View, points: pa.Table, merged: Partial) -> Iterator[bytes]:
    """The measures of one row for each point: that of the window it names, else the latest window that contains its time."""
    answers = ordered(view, kernel.present(view, merged))
    columns_ = {KEY.format(number): answers[name] for number, name in enumerate(view.keys)}
    numbered = pa.table(
        columns_
        | {name: answers[name].cast(pa.int64()) for name in WINDOW_COLUMNS}
        | {_NUMBER: arrays.row_numbers(answers.num_rows)}
    )
    start, end = WINDOW_COLUMNS
    same = [f"{_ROWS}.{name} IS NOT DISTINCT FROM {_POINTS}.{name}" for name in columns_]
    named = WINDOW in points.column_names
    same.append(f"{start} IS NOT DISTINCT FROM {WINDOW}" if named else f"({start} IS NULL OR ({start} <= {AT} AND {AT} < {end}))")
    sql = (
        f"SELECT {ROW}, {_ROWS}.{_NUMBER} AS {_NUMBER} FROM {_POINTS} JOIN {_ROWS} ON {' AND '.join(same)} "
        f"QUALIFY row_number() OVER (PARTITION BY {ROW} ORDER BY {start} DESC) = 1 ORDER BY {ROW}"
    )
    results = engine.query(sql, {_POINTS: points.select([*columns_, ROW, AT, *([WINDOW] if named else [])]), _ROWS: numbered})
    yield to_ipc(answers.select([*job.measures]).take(results[_NUMBER]).append_column(ROW, arrays.whole(results[ROW])))
