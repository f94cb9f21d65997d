"""What a source's prepare makes of its events: the rows that views look at, the same for every split, whatever fails."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.decode import decode
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint, fingerprint
from tandem.views.kernel.kernel import Partial, deduplicate, merge, partial, prepare, present
from tandem.views.kernel.rows import to_rows
from tandem.views.measures import count, first, first_k, last, maximum, sample, total
from tandem.views.project.project import load_files
from tandem.views.source.event import Event
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.prepare import prepared_schema
from tandem.views.source.source import POSITION_SCHEMA, Source, events_schema
from tandem.views.testing import answer, events_table, rejected
from tandem.views.view import View, bind
from tandem.views.windows import Window, count_window, hopping, session, sliding_count_window, tumbling
from tandem.views.windows.in_order import delta, punctuation
from tests.samples import share
from tests.views.logged import records

START = datetime(2026, 11, 1, tzinfo=UTC)


class Line(Event):
    at: datetime
    text: str
    id: int = 0


def words(lines: pa.Table) -> pa.Table:
    """As the documentation writes it, but that it fails where a line says so."""
    text = lines["text"].combine_chunks()
    if pc.any(pc.match_substring(text, "fail"), min_count=0).as_py():
        raise ValueError("a line fails")
    split = pc.split_pattern_regex(text, r"\s+")
    found = lines.take(pc.list_parent_indices(split)).append_column("word", pc.list_flatten(split))
    return found.filter(pc.not_equal(found["word"], ""))


def source(function: Any, **more: Any) -> Source:
    return Source(topic="lines", event=Line, event_time="at", prepare=function, name="lines", **more)


LINES = source(words)
WORDS = View(LINES, keys={"word": "word"}, measures={"n": count(), "sizes": total("length(word)"), "last": maximum("_offset")})


def line(text: str, number: int = 0, *, minute: int = 0) -> Line:
    return Line(START + timedelta(minutes=minute), text, number)


def folded(view: View, events: pa.Table) -> Partial:
    prepared = prepare(view.source, events)
    return partial(view, prepared.events, EMPTY, prepared.failed)


@share(50)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "fail", "cc"]), max_size=4).map(" ".join), max_size=12), st.data())
def test_it_answers_what_plain_python_does_for_any_split(texts: list[str], data: st.DataObject) -> None:
    events = events_table(LINES, [line(text) for text in texts])
    order = data.draw(st.permutations(range(len(texts))))
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(texts)), max_size=3))), len(texts)]
    shuffled = events.take(pa.array(order, pa.int64()))
    pieces = [shuffled.slice(start, to - start) for start, to in pairwise(cuts)]
    merged = merge(WORDS, [folded(WORDS, piece) for piece in pieces])

    kept = [(offset, word) for offset, text in enumerate(texts) if "fail" not in text for word in text.split()]
    counts = Counter(word for _, word in kept)
    assert {row["word"]: (row["n"], row["sizes"], row["last"]) for row in to_rows(WORDS, present(WORDS, merged))} == {
        word: (n, n * len(word), max(offset for offset, one in kept if one == word)) for word, n in counts.items()
    }
    failing = sum("fail" in text for text in texts)
    assert merged.rejected == ({"prepare": failing} if failing else {})


@share(30)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "cc", "d"]), max_size=4).map(" ".join), max_size=12), st.integers(0, 12))
def test_measures_that_go_by_position_are_the_same_for_every_split(texts: list[str], cut: int) -> None:
    """Though the rows of one event share theirs."""
    by_position = {"f": first("word"), "l": last("word"), "k": first_k("word", 3)}
    view = View(LINES, measures=by_position)
    events = events_table(LINES, [line(text) for text in texts])
    pieces = [folded(view, piece) for piece in (events.slice(cut), events.slice(0, cut))]
    assert present(view, merge(view, pieces)).equals(present(view, merge(view, [folded(view, events)])))


def test_rows_of_one_event_are_not_drawn() -> None:
    with pytest.raises(DefinitionError, match="measure 's': draws events, and the rows that words makes of one event are not"):
        bind(View(LINES, measures={"s": sample("word", 3, filter="word <> 'a'")}))


def test_no_window_leaves_the_calendar_though_the_source_is_plausible() -> None:
    def never(lines: pa.Table) -> pa.Table:
        times = pa.array([datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)] * lines.num_rows, pa.timestamp("us", "UTC"))
        return lines.set_column(lines.column_names.index("at"), "at", times)

    never.__qualname__ = "never"
    for window in (tumbling(hours=7), session(minutes=1), hopping(timedelta(hours=2), every=timedelta(hours=1))):
        view = View(source(never), window=window, measures={"n": count()})
        assert (answer(view, [line("a")]), rejected(view, [line("a")])) == ([], {"out_of_range": 1})


def test_an_event_that_fails_is_rejected_by_every_view_beside_its_own_rejections() -> None:
    lines = [line("a fail"), line("1 x"), line("2")]
    assert rejected(View(LINES, where="word = 'a'", measures={"n": count()}), lines) == {"prepare": 1}
    assert rejected(View(LINES, measures={"n": total("CAST(word AS INT)")}), lines) == {"expression": 1, "prepare": 1}
    assert rejected(View(LINES, measures={"n": count()}), [line("fail")]) == {"prepare": 1}
    assert answer(View(LINES, measures={"n": count()}), lines) == [
        {"window_start": None, "window_end": None, "window_state": "open", "n": 3},
    ]


def test_an_event_of_which_nothing_is_made_is_no_rejection() -> None:
    def small(lines: pa.Table) -> pa.Table:
        return lines.filter(pc.less(lines["id"], 2))

    small.__qualname__ = "small"
    view = View(source(small), measures={"n": count()})
    assert answer(view, [line("", 1), line("", 2)])[0]["n"] == 1
    assert (answer(view, [line("", 2)]), rejected(view, [line("", 2)])) == ([], {})


def test_copies_are_told_by_the_events_before() -> None:
    """Whatever the rows say of themselves."""

    def alike(lines: pa.Table) -> pa.Table:
        return lines.set_column(lines.column_names.index("id"), "id", pa.repeat(7, len(lines)))

    alike.__qualname__ = "alike"
    view = View(source(alike, identity=("id",)), keys={"id": "id"}, measures={"n": count()})
    assert [(row["id"], row["n"]) for row in answer(view, [line("a", 1), line("b", 2), line("b", 2)])] == [(7, 2)]


def test_windows_are_of_the_time_that_rows_have() -> None:
    def an_hour_fast(lines: pa.Table) -> pa.Table:
        earlier = pc.subtract(lines["at"], pa.scalar(timedelta(hours=1), pa.duration("us")))
        return lines.set_column(lines.column_names.index("at"), "at", earlier)

    an_hour_fast.__qualname__ = "an_hour_fast"
    view = View(source(an_hour_fast), window=tumbling(hours=1), measures={"n": count()})
    assert [row["window_start"] for row in answer(view, [line("a", minute=90)])] == ["2026-11-01T00:00:00Z"]


def test_a_source_that_prepares_nothing_gives_its_events() -> None:
    plain = source(None)
    events = events_table(plain, [line("a")])
    assert prepare(plain, events).events.drop_columns(["_generation"]) == events
    assert prepared_schema(plain) == events_schema(plain)
    assert prepared_schema(LINES).names == [*events_schema(plain).names, "word"]


def _null_time(lines: pa.Table) -> pa.Table:
    return lines.set_column(lines.column_names.index("at"), "at", pc.if_else(pc.equal(lines["id"], 1), None, lines["at"]))


def _far_time(lines: pa.Table) -> pa.Table:
    far = pa.scalar(253_402_300_800_000_000, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return lines.append_column("t", pc.if_else(pc.equal(lines["id"], 1), far, lines["at"]))


def _elsewhere(lines: pa.Table) -> pa.Table:
    moved = pc.add(lines["_offset"], pc.if_else(pc.equal(lines["id"], 1), 100, 0))
    return lines.set_column(lines.column_names.index("_offset"), "_offset", moved)


def _wide(lines: pa.Table) -> pa.Table:
    doubles = pc.if_else(pc.equal(lines["id"], 1), 0.5, 2.0)
    return lines.append_column("x", doubles if len(lines) else pa.chunked_array([], pa.int64()))


def _no_text(lines: pa.Table) -> pa.Table:
    broken = pc.if_else(pc.equal(lines["id"], 1), pa.scalar(b"\xff"), pa.scalar(b"a")).combine_chunks()
    return lines.append_column("s", broken.view(pa.string()))


def _more_columns(lines: pa.Table) -> pa.Table:
    return lines.append_column("x", lines["id"]) if 1 in lines["id"].to_pylist() else lines


def _no_table(lines: pa.Table) -> Any:
    return None if 1 in lines["id"].to_pylist() else lines


@pytest.mark.parametrize("function", [_null_time, _far_time, _elsewhere, _wide, _no_text, _more_columns, _no_table])
def test_an_event_whose_rows_are_not_as_promised_fails_alone(function: Any) -> None:
    view = View(source(function), keys={"id": "id"}, measures={"n": count()})
    lines = [line("", number) for number in (0, 1, 2, 1, 3)]
    assert [row["id"] for row in answer(view, lines)] == [0, 2, 3]
    assert rejected(view, lines) == {"prepare": 2}


def _from_rows(lines: pa.Table) -> pa.Table:
    """Types that pyarrow takes from the values there are."""
    if not len(lines):
        return lines.append_column("n", pa.array([], pa.float64()))
    return lines.append_column("n", pa.array([each or None for each in lines["id"].to_pylist()]))


def test_types_that_follow_from_values_are_those_of_the_empty_table() -> None:
    view = View(source(_from_rows), measures={"n": total("n")})
    for pieces in ([[0, 1]], [[0], [1]]):
        partials = [folded(view, events_table(view.source, [line("", number) for number in piece])) for piece in pieces]
        assert [row["n"] for row in to_rows(view, present(view, merge(view, partials)))] == [1.0]
        assert not merge(view, partials).rejected


def test_memory_that_runs_out_is_nobodys_event() -> None:
    def hungry(lines: pa.Table) -> pa.Table:
        if len(lines):
            raise MemoryError
        return lines

    hungry.__qualname__ = "hungry"
    with pytest.raises(MemoryError):
        answer(View(source(hungry), measures={"n": count()}), [line("a")])


def test_what_ends_a_process_is_one_events_failure_and_an_interrupt_is_the_users() -> None:
    def leaving(lines: pa.Table) -> pa.Table:
        if "exit" in lines["text"].to_pylist():
            raise SystemExit
        if "user" in lines["text"].to_pylist():
            raise KeyboardInterrupt
        return lines

    leaving.__qualname__ = "leaving"
    view = View(source(leaving), measures={"n": count()})
    lines = [line("a"), line("exit"), line("b")]
    assert (answer(view, lines)[0]["n"], rejected(view, lines)) == (2, {"prepare": 1})
    with pytest.raises(KeyboardInterrupt):
        answer(view, [line("user")])


def _gives(table: Any) -> Any:
    def made(lines: pa.Table) -> Any:
        return table(lines)

    made.__qualname__ = "made"
    return made


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (lambda lines: lines["nope"], "prepare made failed for a table without events: KeyError: "),
        (lambda lines: lines.to_pylist(), "prepare made returned a list for a table without events; expected a pyarrow.Table"),
        (lambda lines: lines.drop(["_offset"]), "prepare made returns no column '_offset'; every row needs its event's"),
        (lambda lines: lines.drop(["at"]), "prepare made returns no column 'at'; every row needs its event's "),
        (
            lambda lines: lines.set_column(1, "_partition", lines["_offset"]),
            "prepare made returns column '_partition' as int64; expected type int32",
        ),
        (
            lambda lines: lines.set_column(4, "at", lines["at"].cast(pa.timestamp("us"))),
            r"prepare made returns column 'at' as timestamp\[us\]; expected type timestamp\[us, tz=UTC\]",
        ),
        (
            lambda lines: lines.append_column("_own", lines["id"]),
            "prepare made returns a column '_own'; the name of a new column must not start with _",
        ),
        (lambda lines: lines.append_column("Text", lines["text"]), "prepare made returns two columns 'Text'; names must"),
        (
            lambda lines: lines.append_column("n", lines["id"].cast(pa.int32())),
            "prepare made returns column 'n' as int32; cast it to one of bool, int64, ",
        ),
        (
            lambda lines: lines.append_column("n", lines["id"].cast(pa.decimal256(40, 0))),
            r"prepare made returns column 'n' as decimal256\(40, 0\); cast it to one of",
        ),
        (
            lambda lines: pa.Table.from_pylist([dict.fromkeys(lines.column_names)], schema=lines.schema),
            "prepare made returned 1 rows for a table without events; expected no rows",
        ),
    ],
)
def test_what_no_view_can_use_is_one_sentence(table: Any, sentence: str) -> None:
    with pytest.raises(DefinitionError, match=sentence):
        prepared_schema(source(_gives(table)))
    with pytest.raises(DefinitionError, match=sentence):
        bind(View(source(_gives(table)), measures={"n": count()}))


def two(lines: pa.Table, more: int) -> pa.Table:
    return lines


def test_what_is_no_function_of_a_table_is_refused() -> None:
    for wrong, sentence in (
        ("words", "prepare 'words' must be a module-level, named function"),
        (lambda lines: lines, "must be a module-level, named function"),
        (two, "prepare two takes .*; it takes one table of events"),
    ):
        with pytest.raises(DefinitionError, match=sentence):
            source(wrong)


def test_expressions_are_checked_against_what_it_makes() -> None:
    with pytest.raises(DefinitionError, match=r"key 'w': 'wrd' names a field 'wrd' that Line prepared by words does not .*word"):
        bind(View(LINES, keys={"w": "wrd"}, measures={"n": count()}))


@pytest.mark.parametrize("window", [count_window(2), sliding_count_window(2), delta("id", by=1), punctuation("id = 1")])
def test_rows_of_one_event_have_no_order_for_a_window_to_follow(window: Window) -> None:
    with pytest.raises(DefinitionError, match="follows the order of the log, in which the rows that words makes of one event"):
        bind(View(LINES, window=window, measures={"n": count()}))


DEFINITIONS = """
from datetime import datetime

import pyarrow.compute as pc

from shifts import shift
from tandem import Event, Source, View, count


class Reading(Event):
    at: datetime
    celsius: float


def calibrated(readings):
    return readings.append_column("kelvin", pc.add(readings["celsius"], shift()))


readings = Source(topic="readings", event=Reading, event_time="at", prepare=calibrated)
hot = View(readings, where="kelvin > 300", measures={"n": count()})
SOURCES = (readings,)
VIEWS = (hot,)
"""
SHIFTS = "def shift():\n    return 273.15\n"


def project(definitions: str = DEFINITIONS, shifts: str = SHIFTS) -> tuple[str, str]:
    """Fingerprints of view and decoder."""
    texts = {"tandem.toml": "", "definitions.py": definitions, "shifts.py": shifts}
    loaded = load_files({path: text.encode() for path, text in texts.items()})
    return fingerprint(loaded.views["hot"]), decoder_fingerprint(loaded.sources["readings"])


def test_an_error_says_where_the_source_is_defined() -> None:
    with pytest.raises(
        DefinitionError,
        match=r"^definitions\.py:19: source 'readings': prepare calibrated failed for a table without events: KeyError",
    ):
        project(DEFINITIONS.replace('readings["celsius"]', 'readings["fahrenheit"]'))


def test_the_function_gets_all_that_the_events_hold() -> None:
    """Whatever the chunks of the table, in the types of the event's fields."""
    seen: list[pa.Table] = []

    def looks(lines: pa.Table) -> pa.Table:
        seen.append(lines)
        return lines

    looks.__qualname__ = "looks"
    keyed = source(looks, metadata=("_key",))
    value = msgspec.json.encode(line("a"))
    events = decode(keyed, pa.concat_tables([records([value]), records([value], first=1)])).events
    assert prepare(keyed, deduplicate(keyed, events).events).failed == 0
    assert [table.schema for table in seen] == [events_schema(keyed)] * 2  # once without events
    assert seen[1].column("id").num_chunks == 1
    assert seen[1].select(POSITION_SCHEMA.names).equals(events.select(POSITION_SCHEMA.names))


MADE = """
def made(by):
    def calibrated(readings):
        return readings.append_column("kelvin", pc.add(readings["celsius"], by))

    calibrated.__qualname__ = "calibrated"
    return calibrated


calibrated = made(273.15)
"""
DECORATED = """
def plain(function):
    return wraps(function)(lambda readings: function(readings))


@plain
def calibrated(readings):
    return readings.append_column("kelvin", pc.add(readings["celsius"], shift()))
"""


def with_function(text: str) -> str:
    start, end = DEFINITIONS.index("def calibrated"), DEFINITIONS.index("readings = Source")
    return f"from functools import wraps\n{DEFINITIONS[:start]}{text}\n\n{DEFINITIONS[end:]}"


def test_what_a_function_made_holds_is_in_no_fingerprint_so_it_has_none() -> None:
    with pytest.raises(DefinitionError, match="calibrated is made by made, so its code is not its whole meaning"):
        project(with_function(MADE))
    assert project(with_function(DECORATED)) != project()
    assert project(with_function(DECORATED.replace("function(readings))", "function(readings[:1]))"))) != project(
        with_function(DECORATED)
    )
