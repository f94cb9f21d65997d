"""Windows that begin before a time keep the earlier definition: batch, speed, merged and the plain oracle agree at every cut."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.publish.batch_parts import starting_within
from tandem.views import oracle
from tandem.views.composite.dated import DatedView, Earlier, Piece, chain, pieces
from tandem.views.errors import DefinitionError
from tandem.views.kernel import present as presenting
from tandem.views.kernel.kernel import after_final, arrange_as_one, merge, partial, present, present_arranged
from tandem.views.measures import approx_count_distinct, collect_set, count, derived, first, last, maximum, mean, total
from tandem.views.source.offset_ranges import EMPTY, Ranges
from tandem.views.view import View, answer_schema, group_columns, state_schema
from tandem.views.windows import Window, all_time, calendar, count_window, hopping, session, tumbling
from tests.agreement.drawn import PARTITIONS, Log
from tests.agreement.test_layers_agree import events_of, splits, wired
from tests.samples import COPIED, EPOCH, just, placed, rows, table

WINDOWS: Final[tuple[Window, ...]] = (
    tumbling(hours=7),
    hopping(timedelta(days=3), every=timedelta(days=2)),
    hopping(timedelta(days=1), every=timedelta(hours=6)),
    calendar("day", zone="America/Havana"),
)
DEFINITIONS: Final = (
    View(COPIED, {"s": "s"}, measures={"n": count(), "most": maximum("i"), "sum": total("i % 100")}),
    View(COPIED, {"s": "s"}, measures={"n": count(), "sum": total("i % 100", filter="flag"), "last": last("i")}, where="i > -3"),
    View(COPIED, {"s": "s"}, measures={"n": approx_count_distinct("i"), "each": derived("sum / n"), "sum": total("i % 10")}),
    View(COPIED, {"s": "s"}, measures={"risk": total("10 // (i % 5)"), "first": first("i"), "last": first("i")}, where="flag"),
    View(COPIED, {"s": "s"}, measures={"all": collect_set("digits"), "mean": mean("i % 7"), "N_": count()}),
)
_hours = st.integers(-5, 24 * 9).map(lambda hours: EPOCH + timedelta(hours=hours))
_times = st.integers(0, 24 * 60 * 8).map(lambda minutes: EPOCH + timedelta(minutes=minutes))


@st.composite
def chains(draw: st.DrawFn) -> View:
    """A view of two to five definitions, with times between them that may be equal or within one window."""
    window = draw(st.sampled_from(WINDOWS))
    *earlier, newest = draw(st.lists(st.sampled_from(DEFINITIONS), min_size=3, max_size=5))
    times = sorted(draw(st.lists(_hours, min_size=len(earlier), max_size=len(earlier))))
    views = [replace(one, window=window, name="v") for one in earlier]
    return _dated(replace(newest, window=window, name="v"), *zip(views, times, strict=True))


def _dated(newest: View, *earlier: tuple[View, datetime]) -> View:
    return chain(newest, tuple(Earlier(*one) for one in earlier))


@st.composite
def _logs(draw: st.DrawFn) -> Log:
    events = st.tuples(rows, _times, st.integers(-9, 9)).map(lambda three: {**three[0], "at": three[1], "i": three[2]})
    known = [{**row, "id": number} for number, row in enumerate(draw(st.lists(events, min_size=1, max_size=12)))]
    copies = st.lists(st.sampled_from(known), max_size=12)
    return {partition: placed(draw(copies), partition=partition) for partition in PARTITIONS[:2]}


@just(850, quick=8)
@given(chains(), _logs(), st.data())
def test_windows_keep_the_definition_of_their_start_at_every_cut(view: View, log: Log, data: st.DataObject) -> None:
    """Each example has 12 or 13 cuts: 20 of them are 250 cases, 850 more than 10 000."""
    end = {partition: len(events) for partition, events in log.items()}
    vectors = splits(data, dict.fromkeys(log, 0), end, least=11, most=12)
    events = [*events_of(view.source, log, vectors)]
    folded = [partial(view, some, Ranges.of(one)) for some, one in zip(events, vectors, strict=True)]
    wires = [wired(one) for one in folded]
    groups, rejected = oracle.grouped(view, pa.concat_tables(events))
    answer = present(view, merge(view, folded))
    assert answer.schema.equals(answer_schema(view))
    assert not [one for one in oracle.compare(view, answer, groups) if one.differ]
    for cut in range(len(folded) + 1):
        batch = merge(view, folded[:cut])
        merged = merge(view, [batch, *data.draw(st.permutations(wires[cut:]))])
        assert merged.ranges.length == sum(end.values())
        assert Counter(merged.rejected) == Counter(rejected)
        assert _rows(view, present(view, merged)) == _rows(view, answer)


def _rows(view: View, answer: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    columns = group_columns(view)
    return {tuple(row[name] for name in columns): {name: row[name] for name in view.measures} for row in answer.to_pylist()}


def expected(view: View, events: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    """What plain views of the definitions answer about all events, each in the windows that begin in its time."""
    assert isinstance(view, DatedView)
    since, found = datetime.min.replace(tzinfo=UTC), dict[tuple[Any, ...], dict[str, Any]]()
    newest = pieces(view)[-1].view
    for one, until in [*((one.view, one.until) for one in view.earlier), (newest, datetime.max.replace(tzinfo=UTC))]:
        for group, row in _rows(one, present(one, merge(one, [partial(one, events, EMPTY)]))).items():
            if since <= group[len(view.keys)] < until:
                found[group] = {name: row.get(name) for name in view.measures}
        since = until
    return found


def _event(number: int, day: int, **values: Any) -> dict[str, Any]:
    return placed(
        [
            {
                **dict.fromkeys(("flag", "i", "f", "d", "s", "digits", "b", "day", "t", "m")),
                "at": EPOCH + timedelta(days=day),
                "id": number,
                **values,
            }
        ]
    )[0]


DAILY = replace(DEFINITIONS[0], window=tumbling(days=1), name="v", measures={"n": count()})
CHAIN = _dated(replace(DAILY, measures={"n": count(), "sum": total("i")}, where="i > 1"), (DAILY, EPOCH + timedelta(days=3)))


def _answer(view: View, *events: dict[str, Any]) -> list[tuple[int, Any, Any]]:
    given = table([*events], source=COPIED)
    answer = present(view, merge(view, [partial(view, given.slice(n, 1), EMPTY) for n in range(given.num_rows)]))
    rows = sorted(answer.to_pylist(), key=lambda row: row["window_start"])
    return [((row["window_start"] - EPOCH).days, row["n"], row["sum"]) for row in rows]


LATE = [_event(1, 5, i=1), _event(2, 5, i=2), _event(3, 2, i=1), _event(4, 3, i=7)]


def test_a_late_event_counts_by_the_definition_of_its_window() -> None:
    assert _answer(CHAIN, *LATE) == [(2, 1, None), (3, 1, 7), (5, 1, 2)]


def test_a_late_event_given_to_the_newest_definition_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Piece, "events", lambda piece, events: events if piece.end is None else events.slice(0, 0))
    events = table(LATE, source=COPIED)
    assert _rows(CHAIN, present(CHAIN, merge(CHAIN, [partial(CHAIN, events, EMPTY)]))) != expected(CHAIN, events)


def test_a_measure_that_is_not_null_before_its_time_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        presenting,
        "_with_columns_of",
        lambda schema, answer: pa.Table.from_arrays(
            [
                answer[name] if name in answer.column_names else pa.repeat(pa.scalar(0, schema.field(name).type), len(answer))
                for name in schema.names
            ],
            schema=schema,
        ),
    )
    events = table(LATE, source=COPIED)
    answer = present(CHAIN, merge(CHAIN, [partial(CHAIN, events, EMPTY)]))
    assert [one.measure for one in oracle.compare(CHAIN, answer, oracle.grouped(CHAIN, events)[0]) if one.differ] == ["sum"]


def test_states_of_the_oldest_definition_are_those_of_the_plain_view() -> None:
    events = table(LATE, source=COPIED)
    plain, of_chain = (partial(view, events, EMPTY).states for view in (DAILY, CHAIN))
    assert set(plain.schema.names) <= set(of_chain.schema.names)
    assert pieces(CHAIN)[0].select(of_chain).num_rows == 1


def test_a_late_event_is_labelled_once() -> None:
    watermark = int((EPOCH + timedelta(days=400)).timestamp() * 1_000_000)
    assert after_final(CHAIN, table(LATE, source=COPIED), watermark) == 3  # the filter leaves one out


def test_one_window_of_a_range_has_the_definition_of_its_start() -> None:
    days = hopping(timedelta(days=2), every=timedelta(days=1))
    newest = replace(DAILY, window=days, measures={"n": count(), "sum": total("i")}, where="i > 1")
    view = _dated(newest, (replace(DAILY, window=days), EPOCH + timedelta(days=3)))
    states = merge(view, [partial(view, table(LATE, source=COPIED), EMPTY)]).states
    for start, end, row in ((0, 3, (1, None)), (3, 6, (2, 9))):
        span = (EPOCH + timedelta(days=start), EPOCH + timedelta(days=end))
        (found,) = present_arranged(view, arrange_as_one(view, starting_within(states, span), *span)).to_pylist()
        assert (found["n"], found["sum"]) == row


def test_an_event_that_two_definitions_reject_is_rejected_once() -> None:
    """Windows of both have it; the reason is the older definition's. Another event is rejected by the newer one alone."""
    days = hopping(timedelta(days=3), every=timedelta(days=1))
    older = replace(DAILY, window=days, measures={"n": count(), "risk": total("10 // i")})
    newer = replace(older, measures={"n": count(), "risk": total("10 // i"), "more": total("10 // (i - 1)")})
    view = _dated(newer, (older, EPOCH + timedelta(days=3)))
    events = table([_event(1, 3, i=0), _event(2, 4, i=0), _event(3, 4, i=1), _event(4, 9, i=0), _event(5, 4, i=5)], source=COPIED)
    rejected = {"expression": 4}
    assert partial(view, events, EMPTY).rejected == oracle.grouped(view, events)[1] == rejected
    assert sum(sum(partial(view, events.slice(n, 1), EMPTY).rejected.values()) for n in range(events.num_rows)) == 4


@pytest.mark.parametrize(
    ("newest", "sentence"),
    [
        (replace(DAILY, window=all_time()), r"has window all_time\(\), which does not begin at a time"),
        (replace(DAILY, window=session(hours=1)), "does not begin at a time"),
        (replace(DAILY, window=count_window(2)), "does not begin at a time"),
        (replace(DAILY, window=tumbling(hours=1)), "its window was tumbling.* and is tumbling"),
        (replace(DAILY, keys={"s": "digits"}), "key 's' was s and is digits"),
        (replace(DAILY, keys={"s": "s", "flag": "flag"}), "key 'flag' was not a key and is flag"),
        (replace(DAILY, measures={"n": mean("i")}), "measure 'n' was of type int64 and is double"),
    ],
)
def test_definitions_that_do_not_go_together_are_refused_by_name(newest: View, sentence: str) -> None:
    with pytest.raises(DefinitionError, match=f"view 'v'.*{sentence}"):
        state_schema(_dated(newest, (DAILY, EPOCH)))
