"""Compare published answers of a few keys with the plain oracle over the events of these keys.

Of a key with too many events, some windows are compared instead, if event time bounds them.

No Spark: the driver scans the published states for keys, then the events below the cut for their events, in bounded pieces, and
keeps only what belongs to the sampled keys. Keys are drawn in the order of the MD5 of the publication's number and the key:
always the same keys for one publication, different ones for the next.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import md5
from heapq import nsmallest
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem.batch.recompute import audit
from tandem.batch.verify.replay_compare import ReplayComparison
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import EVENTS, file_ranges
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START, ranges
from tandem.ledger.publish.batch_parts import files_with_later
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release
from tandem.ledger.stored_states import stored
from tandem.views import oracle
from tandem.views.arrow import arrays
from tandem.views.composite.dated import DatedView
from tandem.views.composite.table import looked_up
from tandem.views.kernel import kernel
from tandem.views.kernel.kernel import Partial
from tandem.views.kernel.look_up import with_rows
from tandem.views.kernel.rows import written
from tandem.views.oracle import Firsts
from tandem.views.read_columns import columns
from tandem.views.source.event import TIMESTAMP
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import Source, events_schema, position_columns
from tandem.views.source.value_types import normalised
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.sql.syntax import enclosed
from tandem.views.verify.compare import MeasureDifference, plus
from tandem.views.view import View, answer_schema, bind, state_schema
from tandem.views.windows import WINDOW_COLUMNS, Hopping

MOST_EVENTS: Final = 20_000
"""The most events of a key, because the oracle keeps them all in memory: duplicates too, once for each of their windows."""

_WINDOWS: Final = 10
"""The most windows of a key that stand for a key with too many events."""

_SCAN_ROWS: Final = 1 << 17
_ROWS: Final = "_sampled_rows"
_OTHERS: Final = "_sampled_others"
_ROW: Final = "_row"
_KEY: Final = "_key"
_PART: Final = "_part"
_AT: Final = "_at"
_PARTS: Final = "_sampled_parts"
_BOUNDS: Final = pa.schema([(_KEY, pa.int64()), (_PART, pa.int64()), ("_from", TIMESTAMP), ("_until", TIMESTAMP)])


@dataclass(frozen=True)
class Sampled:
    """How the published answers of a number of `keys` of a view differ from the plain oracle's, measure by measure.

    `windows` is the number of windows that were compared of keys with more than MOST_EVENTS events; `too_large` are those keys of
    which none was compared. `left_out` are the measures that the oracle does not compute.
    """

    view: str
    keys: int
    too_large: tuple[Mapping[str, Any], ...] = field(hash=False)
    left_out: tuple[str, ...]
    compared: tuple[ReplayComparison, ...]
    windows: int = 0

    @property
    def answers(self) -> int:
        """How many answers were compared: one for each measure, key and window."""
        return sum(one.figures.rows for one in self.compared)

    @property
    def differ(self) -> int:
        """How many of them differ."""
        return sum(one.figures.differ for one in self.compared)


@dataclass(frozen=True)
class _Part:
    """What is compared at once: a key whole, or one of its windows. The key is its number among the drawn ones."""

    key: int
    window: tuple[datetime, datetime] | None = None


@dataclass
class _Drawn:
    """The drawn keys of a view, their published answers, and the events of each part; None for a part with too many."""

    view: View
    keys: pa.Table
    published: pa.Table
    events: dict[_Part, list[pa.Table] | None]
    kept_from: datetime | None = None
    versions: Mapping[str, pa.Table] = field(default_factory=dict)


@dataclass(frozen=True)
class _SampledLog:
    """The events below the cut: their location and files, and the ids of the topics, the oldest first."""

    place: Location
    files: tuple[str, ...]
    covered: Ranges
    generations: tuple[str, ...]

    def read(self, names: Iterable[str]) -> Iterator[pa.Table]:
        """All events in pieces, with the named columns."""
        yield from scan(self.place, Slice(self.covered, self.files, 0), EVENTS, sorted(names), rows=_SCAN_ROWS)


def sampled(
    tables: Tables, live: Publication, release: Release, source: Source, views: Mapping[str, View], *, keys: int
) -> tuple[Sampled, ...]:
    """Compare published answers of at most this many keys of each of the source's views with the oracle. Raises Unreadable."""
    log = _log(tables, live, release, source)
    drawn = [_drawn(tables, live, view, keys) for view in views.values()]
    _scan_log(log, source, drawn)
    narrowed = [_windows_of_large_keys(view, live.number) for view in drawn]
    _scan_log(log, source, [view for view in narrowed if view.events])
    for whole, windows in zip(drawn, narrowed, strict=True):
        whole.events |= _together(windows.events)
    first = _firsts(log, source, [some for view in drawn for events in view.events.values() for some in events or ()])
    return tuple(_against_oracle(view, log, first) for view in drawn)


def _scan_log(log: _SampledLog, source: Source, drawn: Sequence[_Drawn]) -> None:
    """Keep the events of all parts."""
    if not drawn:
        return
    views = [each.view for each in drawn]
    needed = {*position_columns(source), *oracle.identity_columns(source), source.time_column}.union(*map(columns, views))
    for events in log.read(needed):
        prepared = kernel.prepare(source, events, log.generations).events
        for each in drawn:
            _hold(each, events, prepared)


def _windows_of_large_keys(drawn: _Drawn, publication: int) -> _Drawn:
    """Some windows of each key with too many events, drawn as keys are; no part if event time does not bound the windows."""
    placement = bind(drawn.view).placement
    parts: list[_Part] = []
    if placement.timing.bounded and not placement.in_order:
        for part, events in drawn.events.items():
            if events is None:
                answers = drawn.published.filter(pc.field(_KEY) == part.key)
                windows = set(zip(*(answers[name].to_pylist() for name in WINDOW_COLUMNS), strict=True))
                parts += [
                    _Part(part.key, window) for window in nsmallest(_WINDOWS, windows, lambda each: _rank(publication, each))
                ]
    return replace(drawn, events={part: [] for part in parts})


def _rank(publication: int, window: tuple[datetime, datetime]) -> tuple[str, tuple[datetime, datetime]]:
    return md5(f"{publication}/{window[0]}".encode(), usedforsecurity=False).hexdigest(), window


def _together(events: Mapping[_Part, list[pa.Table] | None]) -> dict[_Part, list[pa.Table] | None]:
    """The windows of each key that have at most MOST_EVENTS events together."""
    sizes: Counter[int] = Counter()
    kept: dict[_Part, list[pa.Table] | None] = {}
    for part, some in events.items():
        if some is not None:
            sizes[part.key] += sum(map(len, some))
            if sizes[part.key] <= MOST_EVENTS:
                kept[part] = some
    return kept


def draw(view: View, states: Iterable[pa.Table], keys: int, publication: int) -> pa.Table:
    """Draw at most this many keys of the states: a table of the keys' columns and a number for each, from 0."""
    schema = pa.schema([*(state_schema(view).field(name) for name in view.keys), (_KEY, pa.int64())])
    names = [quoted(name) for name in view.keys]
    hashed = ", ".join([f"'{publication}'", *(f"coalesce(md5(CAST({name} AS VARCHAR)), 'NULL')" for name in names)])
    different = f"SELECT DISTINCT {', '.join([*names, f'0 AS {_KEY}'])} FROM {_ROWS}"
    chosen = pa.Table.from_batches([], schema)
    for some in states:
        known = [_numbered(table.select(list(view.keys))) for table in (chosen, some)]
        drawn = engine.query(
            f"SELECT * FROM ({different}) ORDER BY md5(concat_ws('/', {hashed})) LIMIT {keys}", {_ROWS: pa.concat_tables(known)}
        )
        chosen = drawn.cast(schema)
    return chosen.set_column(len(names), _KEY, arrays.row_numbers(chosen.num_rows))


def _log(tables: Tables, live: Publication, release: Release, source: Source) -> _SampledLog:
    address = tables.events(source.name, release.sources[source.name])
    handle = delta_tables.open_table(tables, address)
    ledger = ArchiveLedger(tables, source.name)
    return _SampledLog(
        Location.of(tables, address),
        () if handle is None else tuple(span.path for span in file_ranges(handle, EVENTS)),
        ranges(LOG_START, live.cut(source.name), ledger.firsts()),
        ledger.generations(),
    )


def _drawn(tables: Tables, live: Publication, view: View, keys: int) -> _Drawn:
    chosen = draw(view, _published(tables, live, view, list(view.keys)), keys, live.number)
    named = {name: quoted(name) for name in view.keys}
    states = _published(tables, live, view, state_schema(view).names)
    of_keys = [some.take(_matching(some, named, chosen)[_ROW]) for some in states]
    answers = kernel.present(view, Partial(kernel.merge_states(view, of_keys)))
    found = _matching(answers.select(list(view.keys)), named, chosen)  # DuckDB cannot read every answer: totals have 76 digits
    published = answers.take(found[_ROW]).append_column(_KEY, found[_KEY])
    parts: dict[_Part, list[pa.Table] | None] = {_Part(number): [] for number in range(chosen.num_rows)}
    versions = {name: _versions(tables, live, of) for name, of in looked_up(view).items()}
    return _Drawn(view, chosen, published, parts, live.views[view.name].first_window, versions)


def _versions(tables: Tables, live: Publication, view: View) -> pa.Table:
    """The published versions of a table, which are verified as a view of their own."""
    return kernel.versions(view, kernel.merge_states(view, [*_published(tables, live, view, state_schema(view).names)]))


def _published(tables: Tables, live: Publication, view: View, names: Sequence[str]) -> Iterator[pa.Table]:
    """The published states of a view in pieces, with the named columns at least."""
    batch_view = live.views[view.name]
    address = batch_view.address(tables, view.name)
    for file, later in files_with_later(tables, address, batch_view.parts):
        yield from stored(view, Location.of(tables, address), file.path, later, names)


def _hold(drawn: _Drawn, events: pa.Table, prepared: pa.Table) -> None:
    """Keep the events that became rows of a drawn key."""
    view = drawn.view
    place = list(position_columns(view.source))
    bound = bind(view)
    # A dated view has several filters; the oracle asks the one of each event's window.
    where = None if bound.where is None or isinstance(view, DatedView) else enclosed(bound.where.text)
    keys = {name: f"TRY({normalised(enclosed(key.text), key.type)})" for name, key in bound.keys}
    found = _matching(with_rows(view, prepared, drawn.versions), keys, drawn.keys, where=where)
    if not found.num_rows:
        return
    # `prepare` may return several rows for an event, or none; duplicates and counts are about events.
    rows = prepared.select([*place, *({view.source.time_column} - {*place})]).take(found[_ROW]).append_column(_KEY, found[_KEY])
    rows = rows.append_column(_AT, rows[view.source.time_column])
    sql = (
        f"SELECT DISTINCT {_ROW}, {_PART} FROM {_ROWS} JOIN {_OTHERS} USING ({', '.join(place)}) "
        f"JOIN {_PARTS} USING ({_KEY}) WHERE _from IS NULL OR (_from <= {_AT} AND {_AT} < _until) ORDER BY {_ROW}"
    )
    parts = list(drawn.events)
    tables = {_ROWS: _numbered(events.select(place)), _OTHERS: rows.select([*place, _KEY, _AT]), _PARTS: _bounds(view, parts)}
    matched = engine.query(sql, tables)
    needed = sorted({*place, *oracle.identity_columns(view.source), *columns(view)})
    for number in pc.unique(matched[_PART]).to_pylist():
        held = drawn.events[parts[number]]
        if held is not None:
            held.append(events.select(needed).take(matched.filter(pc.field(_PART) == number)[_ROW]))
            if sum(map(len, held)) * _windows_of_an_event(view) > MOST_EVENTS:
                drawn.events[parts[number]] = None


def _bounds(view: View, parts: Sequence[_Part]) -> pa.Table:
    """The part of the log in event time that each part reads: for a session also the gap before it, where nothing may be."""
    before = bind(view).placement.timing.grace
    rows = [
        {
            _KEY: part.key,
            _PART: number,
            "_from": None if part.window is None else part.window[0] - before,
            "_until": None if part.window is None else part.window[1],
        }
        for number, part in enumerate(parts)
    ]
    return pa.Table.from_pylist(rows, _BOUNDS)


def _windows_of_an_event(view: View) -> int:
    return view.window.size // view.window.every if isinstance(view.window, Hopping) else 1


def _firsts(log: _SampledLog, source: Source, held: Sequence[pa.Table]) -> Firsts:
    """The position of the first event with the identity of each kept event, of any key."""
    identity = oracle.identity_columns(source)
    if not identity or not held:
        return {}
    wanted = pa.concat_tables([some.select(identity) for some in held])
    among = f"SELECT {_ROW} FROM {_ROWS} SEMI JOIN {_OTHERS} USING ({', '.join(map(quoted, identity))})"

    def copies() -> Iterator[pa.Table]:
        for events in log.read({*position_columns(source), *identity}):
            found = engine.query(among, {_ROWS: _numbered(events.select(identity)), _OTHERS: wanted})
            yield events.take(found[_ROW])

    return oracle.first_places(source, copies(), log.generations)


def _against_oracle(drawn: _Drawn, log: _SampledLog, first: Firsts) -> Sampled:
    view, source = drawn.view, drawn.view.source
    values = list(zip(*(drawn.keys[name].to_pylist() for name in view.keys), strict=True)) if view.keys else [()]
    parts: dict[_Part, tuple[MeasureDifference, ...]] = {}
    for part, held in drawn.events.items():
        if held is None:
            continue
        events = pa.concat_tables(held) if held else events_schema(source).empty_table()
        counted = oracle.counted(source, events, first, log.generations)
        groups, _ = oracle.grouped(view, kernel.prepare(source, counted, log.generations).events, drawn.versions)
        earliest = drawn.kept_from
        own = {
            group: rows
            for group, rows in groups.items()
            if _is_of(view, part, values[part.key], group) and (earliest is None or group[len(view.keys)] >= earliest)
        }
        parts[part] = oracle.compare(view, _answers_of(drawn, part), own)
    differences = [plus(*measure) for measure in zip(*parts.values(), strict=True)]
    compared = {part.key for part in parts}
    return Sampled(
        view.name,
        len(compared),
        tuple(_shown(drawn, part.key) for part in drawn.events if part.window is None and part.key not in compared),
        oracle.left_out(view),
        tuple(_compared(view, one) for one in differences),
        sum(part.window is not None for part in parts),
    )


def _answers_of(drawn: _Drawn, part: _Part) -> pa.Table:
    published = drawn.published.filter(pc.field(_KEY) == part.key)
    if part.window is None:
        return published
    return published.filter(
        [part.window == row for row in zip(*(published[name].to_pylist() for name in WINDOW_COLUMNS), strict=True)]
    )


def _is_of(view: View, part: _Part, key: tuple[Any, ...], group: tuple[Any, ...]) -> bool:
    """Whether a group of the oracle's is of this part: of a session all that overlap it, for it may be one of several."""
    if group[: len(key)] != key or part.window is None:
        return group[: len(key)] == key
    start, end = group[len(key) : len(key) + 2]
    if bind(view).placement.timing.grace:
        return bool(start < part.window[1] and part.window[0] < end)
    return bool((start, end) == part.window)


def _compared(view: View, one: MeasureDifference) -> ReplayComparison:
    """Duplicates, the order of additions and sketches explain no difference: the oracle already allows for them."""
    figures = audit.figures(view, one, copies=0)
    return ReplayComparison(
        view.name, one.measure, ("published", "oracle"), replace(figures, cause="unexplained") if one.differ else figures
    )


def _shown(drawn: _Drawn, number: int) -> dict[str, Any]:
    """A key as a JSON object."""
    schema = answer_schema(drawn.view)
    key = drawn.keys.slice(number, 1)
    return {name: written(arrays.whole(key[name]), schema.field(name))[0] for name in drawn.view.keys}


def _matching(rows: pa.Table, keys: Mapping[str, str], drawn: pa.Table, *, where: str | None = None) -> pa.Table:
    """The numbers of the rows with a drawn key, and the key's number; `keys` are SQL expressions over them, which may fail."""
    held = _ROWS if where is None else f"(SELECT *, TRY({where}) AS _held FROM {_ROWS}) WHERE _held"
    sql = f"SELECT {', '.join([_ROW, *(f'{sql} AS {quoted(name)}' for name, sql in keys.items())])} FROM {held}"
    numbered = _numbered(rows)
    keyed = [engine.query(sql, {_ROWS: numbered.slice(0, 0)})]
    keyed += [result for _, result in engine.halved(sql, _ROWS, numbered) if result is not None]
    same = " AND ".join(f"{_ROWS}.{quoted(name)} IS NOT DISTINCT FROM {_OTHERS}.{quoted(name)}" for name in keys) or "TRUE"
    return engine.query(
        f"SELECT {_ROWS}.{_ROW}, {_KEY} FROM {_ROWS} JOIN {_OTHERS} ON {same} ORDER BY 1",
        {_ROWS: pa.concat_tables(keyed), _OTHERS: drawn},
    )


def _numbered(rows: pa.Table) -> pa.Table:
    return rows.append_column(_ROW, arrays.row_numbers(rows.num_rows))
