"""Rows of a Parquet file become rows of a CSV source that are read as the file has them, or the file is refused in a sentence."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tandem import Epoch, Event, Scale, Source, csv, tsv
from tandem.cli.records.file_values import file_values
from tandem.views.arrow.python_values import array
from tandem.views.decode import decode
from tandem.views.decode.sample_records import as_records
from tandem.views.errors import TandemError
from tandem.views.source.event import event_fields
from tests.samples import share

AT = datetime(2026, 11, 1, 8, 0, 0, 123456, UTC)


class Sale(Event):
    at: datetime
    name: str
    note: str | None
    n: int | None
    ratio: float
    price: Annotated[Decimal, Scale(2)] | None
    raw: bytes
    open: bool
    day: date
    of_day: time
    took: timedelta
    key: UUID


TYPES = {
    "name": pa.string(),
    "at": pa.timestamp("us", "UTC"),
    "n": pa.int64(),
    "ratio": pa.float64(),
    "price": pa.decimal128(38, 2),
    "raw": pa.binary(),
    "open": pa.bool_(),
    "day": pa.date32(),
    "of_day": pa.time64("us"),
    "took": pa.duration("us"),
    "key": pa.uuid(),
    "note": pa.string(),
}
"""A text is first and last, where a mark or a line's end could be read from it."""
DECODERS: dict[str, Any] = {
    "csv with a header": csv(header=True, null=("NULL",)),
    "csv of columns": csv(columns=(*reversed(TYPES),), null=("NULL",)),
    "a delimiter and a decimal comma": csv(header=True, delimiter=";", decimal=",", null=("NULL",)),
    "tsv": tsv(header=True),
    "tsv of columns": tsv(columns=(*TYPES,)),
}
TEXTS = st.text(st.sampled_from(list("aN\"\\',;\t\n\r\0 \ufeffä🙂")), max_size=6)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.datetimes(datetime(2000, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
            "name": TEXTS,
            "note": st.none() | TEXTS,
            "n": st.none() | st.integers(-(2**63), 2**63 - 1),
            "ratio": st.floats(allow_nan=False, allow_infinity=False),
            "price": st.none() | st.integers(-(10**37), 10**37).map(lambda unscaled: Decimal(f"{unscaled}e-2")),
            "raw": st.binary(max_size=4),
            "open": st.booleans(),
            "day": st.dates(),
            "of_day": st.times(),
            "took": st.timedeltas(timedelta(days=-100_000), timedelta(days=100_000)),
            "key": st.uuids(),
        }
    ),
    min_size=1,
    max_size=5,
)


def write_rows(file: Path, rows: list[dict[str, Any]]) -> Path:
    columns = {}
    for name, of in TYPES.items():
        values = [row[name] for row in rows]
        if name == "key":
            columns[name] = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([value.bytes for value in values], pa.binary(16)))
        else:
            columns[name] = pa.array(values, of)
    pq.write_table(pa.table(columns), file)
    return file


def source(decoder: Any, **options: Any) -> Source:
    return Source(topic="sales", event=Sale, event_time="at", decoder=decoder, name="sales", **options)


@pytest.mark.parametrize("most", [None, 3])
@pytest.mark.parametrize("name", DECODERS)
@share(30)
@given(rows=ROWS)
def test_a_row_is_the_event_that_the_file_holds(
    tmp_path_factory: pytest.TempPathFactory, name: str, most: int | None, rows: list[dict[str, Any]]
) -> None:
    # A row without quotes cannot begin with a byte order mark, and is refused.
    assume("tsv" not in name or not any(row["name"].startswith("\ufeff") for row in rows))
    file = write_rows(tmp_path_factory.mktemp("rows") / "f.parquet", rows)
    of = source(DECODERS[name], max_events_per_record=most)
    with file_values(of, file) as values:
        sample = [value.value for value in values.sample()]
        found = [value.value for value in values]
        assert values.lines == len(rows)
    assert len(found) == (len(rows) if most is None else -(-len(rows) // most))
    for sent in (sample, found):
        decoded = decode(of, as_records(of, sent, topic_id="T", offsets=range(len(sent)), at=AT))
        assert decoded.rejects.to_pylist() == []
        for field in event_fields(Sale):
            values_of = [getattr(msgspec.convert(row, Sale), field.name) for row in rows]
            assert decoded.events[field.name].to_pylist() == column_values(field, values_of)


def column_values(field: Any, values: list[Any]) -> list[Any]:
    """The values as a table of events has them."""
    if field.type in (time, timedelta):
        return [
            None
            if value is None
            else (
                timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
                if field.type is time
                else value
            )
            // timedelta(microseconds=1)
            for value in values
        ]
    return [str(value) if field.type is UUID else value for value in values]


ROW: dict[str, Any] = {
    "at": AT,
    "name": "a",
    "note": None,
    "n": 1,
    "ratio": 0.5,
    "price": None,
    "raw": b"",
    "open": True,
    "day": date(2026, 11, 1),
    "of_day": time(8),
    "took": timedelta(1),
    "key": UUID(int=7),
}


JOIN = {"both": ("name", "note")}


@pytest.mark.parametrize(
    ("decoder", "row", "sentence"),
    [
        (csv(header=True), {"note": ""}, "column 'note' of row 1 of {file} is '', which csv(header=True) reads as null"),
        (csv(header=True, null=("NA",)), {"note": "NA"}, "is 'NA', which csv("),
        (csv(header=True), {"name": None}, "column 'name' of row 1 of {file} is null, which csv(header=True) reads as a text"),
        (csv(header=True, null=()), {"note": None}, "is null, which csv("),
        (
            tsv(header=True),
            {"name": "\ufeffa"},
            "row 1 of {file}: tsv(header=True) has no row that begins with a byte order mark",
        ),
        (csv(header=True, quote=None), {"name": "a,b"}, "column 'name' of row 1 of {file} holds a delimiter or a line end"),
        (csv(header=True, null=(), join=JOIN), {"note": None}, "column 'note' of row 1 of {file} is null, which csv("),
        (csv(header=True, null=("NA",), join=JOIN), {"name": "NA"}, "column 'name' of row 1 of {file} is 'NA', which csv("),
        (csv(columns=("at", "name")), {}, '{file} has a column \'n\', for which csv(columns=("at", "name")) has no place'),
        (csv(columns=(*TYPES, "more")), {}, "{file} has no column 'more', which csv("),
    ],
)
def test_what_a_row_cannot_hold_ends_in_a_sentence(tmp_path: Path, decoder: Any, row: dict[str, Any], sentence: str) -> None:
    class Loose(Event):
        at: datetime
        name: str
        note: str | None = None
        both: str | None = None

    file = write_rows(tmp_path / "f.parquet", [{**ROW, "note": "b", **row}])
    of = Source(topic="sales", event=Loose, event_time="at", decoder=decoder, name="sales")
    with pytest.raises(TandemError) as refused, file_values(of, file):
        pass
    assert sentence.format(file=file) in str(refused.value)


def test_a_list_has_no_place_in_a_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"tags": array([["a"]], pa.list_(pa.string()))}), tmp_path / "f.parquet")
    with (
        pytest.raises(
            TandemError, match=r"column 'tags' of row 1 of .* is a list, struct or map, which a row of CSV cannot hold"
        ),
        file_values(source(csv(header=True)), tmp_path / "f.parquet"),
    ):
        pass


def test_a_column_that_nobody_reads_decides_nothing(tmp_path: Path) -> None:
    class Narrow(Event):
        at: datetime

    file = write_rows(tmp_path / "f.parquet", [{**ROW, "note": ""}, {**ROW, "note": None}])
    for decoder in (csv(header=True), csv(header=True, null=())):
        of = Source(topic="sales", event=Narrow, event_time="at", decoder=decoder, name="sales")
        with file_values(of, file) as values:
            sent = [value.value for value in values]
        decoded = decode(of, as_records(of, sent, topic_id="T", offsets=range(2), at=AT))
        assert (decoded.events["at"].to_pylist(), decoded.rejects.num_rows) == ([AT, AT], 0)


def test_a_time_has_a_point_beside_decimal_commas(tmp_path: Path) -> None:
    class Measured(Event):
        at: Annotated[datetime, Epoch("s")]
        ratio: float

    pq.write_table(pa.table({"at": [AT.timestamp()], "ratio": [0.5]}), tmp_path / "f.parquet")
    decoder = csv(header=True, delimiter=";", decimal=",")
    of = Source(topic="sales", event=Measured, event_time="at", decoder=decoder, name="sales")
    with file_values(of, tmp_path / "f.parquet") as values:
        (sent,) = [value.value for value in values]
    (event,) = decode(of, as_records(of, [sent], topic_id="T", offsets=range(1), at=AT)).events.to_pylist()
    assert (event["at"], event["ratio"]) == (AT, 0.5)
