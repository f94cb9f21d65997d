"""A table and a topic that overlap count each event once, whatever the seam: batch, speed and merged agree at every cut."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Source, View, all_time, calendar, collect_set, count, csv, hopping, maximum, session, total, tumbling
from tandem.ledger.log.adoptions import ROWS, TABLES
from tandem.views import oracle
from tandem.views.decode.decode_records import decode
from tandem.views.kernel.kernel import Partial, deduplicate, merge, partial, present
from tandem.views.source.log_order import with_generation
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import RECORDS_SCHEMA, TABLE_ROW, events_schema
from tandem.views.start import PLACED, StartPositions
from tandem.views.view import group_columns
from tandem.views.windows import Window
from tests.agreement.drawn import Log, Vector
from tests.agreement.test_layers_agree import splits, wired
from tests.samples import cases, just

START: Final = datetime(2026, 3, 1, tzinfo=UTC)
UNTIL: Final = START + timedelta(hours=4)
GENERATIONS: Final = (ROWS, PLACED, "topic")


class HistorySale(Event):
    """A sale."""

    id: int
    at: datetime
    shop: str
    cents: int


_TOPIC: Final = Source(
    topic="sales", event=HistorySale, event_time="at", decoder=csv(columns=("id", "at", "shop", "cents")), name="sales"
)
FIRSTS: Final = {("topic", 0): 3, ("topic", 1): 5}
SEAMS: Final = {
    "identity": replace(_TOPIC, identity=("id",)),
    "history_until": replace(_TOPIC, history_until=UNTIL),
    "offset": replace(_TOPIC, start=StartPositions.of("{}", ("sales",), FIRSTS)),
}
WINDOWS: Final[tuple[Window, ...]] = (
    all_time(),
    tumbling(hours=3),
    hopping(timedelta(hours=4), every=timedelta(hours=2)),
    calendar("day", zone="America/Havana"),
    session(hours=1),
)
MEASURES: Final = {"n": count(), "sum": total("cents"), "most": maximum("cents"), "ids": collect_set("id")}

_sold = st.builds(
    lambda halves, shop, cents: {"at": START + timedelta(minutes=30 * halves), "shop": shop, "cents": cents},
    st.integers(0, 16),
    st.sampled_from(["a", "b"]),
    st.integers(-3, 9),
)


@st.composite
def sides_of(draw: st.DrawFn, source: Source) -> tuple[list[dict[str, Any]], Log]:
    """Events, and a log of rows of a table and records of a topic that has each of them on the side that counts at least once.

    A row with the offset of its record has it as its own. None is an offset that the side lacks.
    """
    events = [{"id": number, **sold} for number, sold in enumerate(draw(st.lists(_sold, min_size=1, max_size=14)))]
    log: Log = {(topic_id, number): [] for topic_id in GENERATIONS for number in range(2)}
    if source.start is not None:
        for event in events:
            number = draw(st.integers(0, 1))
            offset, first = len(log["topic", number]), FIRSTS["topic", number]
            twice = event if draw(st.booleans()) else None
            log["topic", number].append(event if offset >= first else twice)
            log[PLACED, number].append(event if offset < first else twice)
        return events, log
    if source.identity:
        copies = st.lists(st.sampled_from(events), max_size=14)
        table, topic = draw(copies), draw(copies)
        events = [event for event in events if event in table or event in topic]
    else:
        also = draw(st.sets(st.sampled_from(range(len(events)))))
        table = [event for event in events if event["at"] < UNTIL or event["id"] in also]
        topic = [event for event in events if event["at"] >= UNTIL or event["id"] in also]
    for topic_id, side in zip((ROWS, "topic"), (table, topic), strict=True):
        for event in draw(st.permutations(side)):
            log[topic_id, draw(st.integers(0, 1))].append(event)
    return events, log


def records(log: Log, within: Vector) -> pa.Table:
    """The records of these ranges: JSON objects of the table, lines of the topic."""
    rows = [
        {
            "topic_id": topic_id,
            "partition": number,
            "offset": offset,
            "timestamp": event["at"],
            "timestamp_type": TABLE_ROW if topic_id in TABLES else 0,
            "value": (
                json.dumps({**event, "at": event["at"].isoformat()})
                if topic_id in TABLES
                else f"{event['id']},{event['at'].isoformat()},{event['shop']},{event['cents']}"
            ).encode(),
        }
        for (topic_id, number), (low, high) in within.items()
        for offset, event in enumerate(log[topic_id, number][low:high], low)
        if event is not None
    ]
    return pa.Table.from_pylist(rows, RECORDS_SCHEMA)


def partials_of(view: View, log: Log, vectors: list[Vector]) -> list[Partial]:
    """A partial of each vector, of its events that were not counted before."""
    partials, known = [], None
    for vector in vectors:
        decoded = decode(view.source, records(log, vector))
        assert not decoded.rejects.num_rows
        events = with_generation(decoded.events, GENERATIONS)
        events = deduplicate(view.source, events, known, generations=GENERATIONS).events
        known = events if known is None else pa.concat_tables([known, events])
        partials.append(partial(view, events, Ranges.of(vector)))
    return partials


def place(number: int, event: dict[str, Any]) -> dict[str, Any]:
    return {"_topic_id": "topic", "_partition": 0, "_offset": number, **event}


@pytest.mark.parametrize("seam", SEAMS)
@just(1_000, quick=cases(12, bug=67, longer=67))
@given(data=st.data())
def test_an_event_of_table_and_topic_counts_once_at_every_cut(seam: str, data: st.DataObject) -> None:
    """Each example has two to eight cuts: 67 of them for each of three seams are about 1 000 cases, 1 000 more than 10 000."""
    source = SEAMS[seam]
    events, log = data.draw(sides_of(source), label="events and log")
    view = View(source, keys={"shop": "shop"}, window=data.draw(st.sampled_from(WINDOWS)), measures=MEASURES)
    end = {partition: len(side) for partition, side in log.items()}
    partials = partials_of(view, log, splits(data, dict.fromkeys(log, 0), end, most=7))

    union = pa.Table.from_pylist([place(*pair) for pair in enumerate(events)], events_schema(source))
    groups, _ = oracle.grouped(replace(view, source=replace(source, start=None)), with_generation(union, GENERATIONS))
    answer = present(view, merge(view, partials))
    assert not [measure for measure in oracle.compare(view, answer, groups) if measure.differ]
    assert answer.num_rows == len(groups)
    for cut in range(len(partials) + 1):
        batch, realtime = merge(view, partials[:cut]), [wired(each) for each in partials[cut:]]
        merged = merge(view, [batch, *data.draw(st.permutations(realtime))])
        assert merged.ranges.length == sum(end.values())
        assert rows_of(view, present(view, merged)) == rows_of(view, answer)


def rows_of(view: View, answer: pa.Table) -> dict[tuple[Any, ...], dict[str, Any]]:
    columns = group_columns(view)
    return {tuple(row[name] for name in columns): {name: row[name] for name in view.measures} for row in answer.to_pylist()}
