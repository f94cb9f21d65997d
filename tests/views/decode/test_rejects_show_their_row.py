"""A reject shows the data of its record, not a header that each record of a CSV file repeats."""

from datetime import UTC, datetime

from tandem import Event, Source, csv
from tandem.views.decode import decode
from tandem.views.decode.sample_records import as_records


class Reading(Event):
    n: int
    at: datetime


def first_bytes(*values: bytes) -> list[bytes]:
    source = Source(topic="readings", event=Reading, event_time="at", decoder=csv(header=True), name="readings")
    at = datetime(2026, 11, 1, tzinfo=UTC)
    records = as_records(source, values, topic_id="T", offsets=range(len(values)), at=at)
    rejects = decode(source, records).rejects
    return rejects["first_bytes"].to_pylist()


def test_a_csv_reject_shows_the_row_after_its_header() -> None:
    header = b"n,at," + b",".join(b"column%d" % number for number in range(100)) + b"\n"
    row = b"x,2026-11-01T00:00:00Z," + b"," * 99
    assert first_bytes(header + row) == [row]


def test_a_header_may_have_line_ends_in_quotes() -> None:
    assert first_bytes(b'n,at,"a\nb"\nx,y,z', b'n,at,"a\r\nb"\r\nx,y,z\r\n') == [b"x,y,z", b"x,y,z\r\n"]


def test_a_record_without_a_row_shows_its_header() -> None:
    assert first_bytes(b"n,at", b"n,at\n") == [b"n,at", b"n,at\n"]
