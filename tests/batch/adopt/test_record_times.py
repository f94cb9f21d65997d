"""The time of a row's record is that of its event, however the event type says that times are written."""

import json
import pickle
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

import msgspec
import pyarrow as pa
import pytest

from tandem import Epoch, Event, Format, Source, Zone
from tandem.batch.adopt.record_times import RecordTimes
from tandem.batch.adopt.table import NotAdopted
from tandem.batch.adopt.write_rows import RowTask, to_records
from tandem.ledger.delta.location import Location
from tandem.views.decode.decode_records import decode
from tandem.views.instant import APPEND_TIME

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def source_of(annotation: Any, key: str = "at") -> Source:
    event: Any = msgspec.defstruct("Measured", [("at", annotation)], bases=(Event,), rename={"at": key})
    return Source(topic="t", event=event, event_time="at", name="measured")


def table_rows(source: Source, values: list[str]) -> pa.Table:
    """The records of these values."""
    task = pickle.loads(pickle.dumps(RowTask(Location("file:///nowhere", {}), "", {}, RecordTimes.of(source))))
    return to_records(task, 0, 0, pa.table({"value": values, "file": ["f"] * len(values)}))


@pytest.mark.parametrize(
    ("annotation", "written", "time"),
    [
        (datetime, "2026-07-01T14:00:00.000001+02:00", NOON + MICROSECOND),
        (datetime, "2026-07-01 12:00:00Z", NOON),
        (Annotated[datetime, Epoch("s")], 1782907200, NOON),
        (Annotated[datetime, Epoch("s")], 1782907200.000001, NOON + MICROSECOND),
        (Annotated[datetime, Epoch("ms")], "1782907200000", NOON),
        (Annotated[datetime, Epoch("us")], 1782907200000001, NOON + MICROSECOND),
        (Annotated[datetime, Epoch("ns")], 1782907200000001999, NOON + MICROSECOND),
        (Annotated[datetime, Format("%d/%b/%Y:%H:%M:%S %z")], "01/Jul/2026:14:00:00 +0200", NOON),
        (Annotated[datetime, Format("%Y-%m-%d %H:%M"), Zone("Europe/Berlin")], "2026-07-01 14:00", NOON),
        (Annotated[datetime, Zone("America/New_York")], "2026-07-01T08:00:00", NOON),
        (Annotated[date, Zone("Asia/Tokyo")], "2026-07-01", NOON - timedelta(hours=21)),
        (Annotated[date, Format("%m/%d/%Y"), Zone("Asia/Tokyo")], "07/01/2026", NOON - timedelta(hours=21)),
    ],
)
@pytest.mark.parametrize("key", ["at", "the time"])
def test_the_time_is_read_as_the_decoder_reads_it(annotation: Any, written: Any, time: datetime, key: str) -> None:
    source = source_of(annotation, key)
    records = table_rows(source, [json.dumps({"other": [1], key: written})])
    assert records["timestamp"].to_pylist() == [time]
    events = decode(source, records).events
    assert events[source.time_column].to_pylist() == [time]


def test_the_time_of_a_struct_in_the_event_is_read() -> None:
    """The event time of CloudEvents and analytics is often not at the top."""

    class Properties(msgspec.Struct):
        time: Annotated[datetime, Epoch("ms")]

    class Clicked(Event):
        properties: Properties

    source = Source(topic="t", event=Clicked, event_time="properties.time", name="clicked")
    values = ['{"properties": {"time": 1782907200000}}', '{"properties": null}', '{"time": 1}', '{"properties": {"time": "x"}}']
    records = table_rows(source, values)
    assert records["timestamp"].to_pylist() == [NOON, EPOCH, EPOCH, EPOCH]
    assert decode(source, records).events[source.time_column].to_pylist() == [NOON]


@pytest.mark.parametrize(
    "value", ["", "{", "[]", "1,2", '{"at": null}', '{"at": [1]}', '{"at": 7}', '{"at": "2026-07-01T12:00:00"}', '{"at": true}']
)
def test_a_row_without_a_time_has_that_of_1970_and_becomes_a_reject(value: str) -> None:
    records = table_rows(source_of(datetime), [value])
    assert records["timestamp"].to_pylist() == [EPOCH]
    assert decode(source_of(datetime), records).rejects.num_rows == 1


def test_a_time_that_not_every_reader_has_is_the_nearest() -> None:
    values = ['{"at": "0001-01-01T00:00:00+14:00"}', '{"at": "9999-12-31T23:59:59-14:00"}']
    assert [time.year for time in table_rows(source_of(datetime), values)["timestamp"].to_pylist()] == [1582, 9999]


def test_a_source_with_the_time_of_the_broker_is_refused() -> None:
    source = Source(topic="t", event=source_of(datetime).event, event_time=APPEND_TIME, name="measured")
    with pytest.raises(NotAdopted, match="takes its event time from the broker"):
        RecordTimes.of(source)
