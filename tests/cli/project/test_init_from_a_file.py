"""`init --from FILE` writes definitions with which every row of the file is an event, as it is written there."""

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.cli.__main__ import main
from tandem.cli.project.infer import file_sample
from tandem.cli.project.infer.file_sample import NULLS
from tandem.cli.project.infer.project_for_file import project_for_file
from tandem.cli.records.file_values import file_values
from tandem.views.decode.value_parsers import parser
from tandem.views.project.project import load_files
from tandem.views.source.event import event_fields
from tests.documented import File, steps
from tests.samples import just

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=12)
COLUMNS = {
    "text": TEXTS,
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "money": st.decimals(-(10**9), 10**9, places=2),
    "truth": st.booleans(),
    "day": st.dates(date(2001, 1, 1), date(2099, 1, 1)),
    "moment": st.datetimes(datetime(2001, 1, 1), datetime(2099, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001  hypothesis adds it
}
NAMES = st.text("abcXYZ_ 1é-.", min_size=1, max_size=8).filter(lambda name: name.strip())


@dataclass(frozen=True)
class Rows:
    """A table: kinds by column, and the rows, of which `at` is the time."""

    kinds: dict[str, str]
    rows: list[dict[str, Any]]


@st.composite
def tables(draw: st.DrawFn) -> Rows:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique_by=str.casefold).filter(lambda names: "at" not in names))
    kinds = {"at": "moment", **{name: draw(st.sampled_from(sorted(COLUMNS))) for name in names}}
    count = draw(st.integers(3, 8))
    rows = [{name: draw(COLUMNS[kind]) for name, kind in kinds.items()} for _ in range(count)]
    for name in names:
        if draw(st.booleans()):
            rows[draw(st.integers(1, count - 1))][name] = None
    return Rows(kinds, rows)


def plain(value: Any) -> Any:
    """A value as JSON and CSV write it."""
    match value:
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bool():
            return "true" if value else "false"
        case _:
            return value


def write_json(rows: Sequence[dict[str, Any]], file: Path) -> None:
    lines = [{name: value if isinstance(value, bool) else plain(value) for name, value in row.items()} for row in rows]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def write_csv(rows: Sequence[dict[str, Any]], file: Path) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [*rows[0]])
    writer.writeheader()
    writer.writerows({name: plain(value) for name, value in row.items()} for row in rows)
    file.write_text(text.getvalue(), "utf-8", newline="")


def write_parquet(rows: Sequence[dict[str, Any]], file: Path) -> None:
    pq.write_table(pa.Table.from_pylist([*rows]), file)


def decoded(file: Path) -> list[dict[str, Any]]:
    """The events of a file by the definitions that are begun for it, by the keys of the file."""
    begun = project_for_file(file, None)
    source = load_files({**begun.files, "tandem.toml": b""}).sources[begun.source]
    parse = parser(source.event, source.decoder)
    keys = {field.name: field.key for field in event_fields(source.event)}
    assert begun.tried.rejects.total == 0
    with file_values(source, file) as values:
        events = [msgspec.structs.asdict(parse(value.value)) for value in values]
    return [{keys[name]: value for name, value in event.items()} for event in events]


@pytest.mark.parametrize(("suffix", "write"), [("jsonl", write_json), ("csv", write_csv), ("parquet", write_parquet)])
@just(20, quick=8)
@given(table=tables())
def test_every_row_is_the_event_that_is_written_there(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, write: Any, table: Rows
) -> None:
    file = tmp_path_factory.mktemp("rows") / f"rows.{suffix}"
    write(table.rows, file)
    events = decoded(file)
    assert len(events) == len(table.rows)
    for row, event in zip(table.rows, events, strict=True):
        assert event["at"] == row["at"]
        for name in table.kinds:
            if name in event:
                assert_equal(row[name], event[name])
            else:
                assert all(other[name] is None for other in table.rows)


def test_clocks_durations_and_maps_of_parquet_are_declared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    day, clock, length = datetime(2026, 11, 1, tzinfo=UTC), time(8, 5, 1, 123), timedelta(seconds=-90, microseconds=5)
    columns = {
        "at": pa.array([day, day + timedelta(hours=1)]),
        "opens": pa.array([clock, None], pa.time64("us")),
        "closes": pa.array([time(18), time(19)], pa.time32("ms")),
        "took": pa.array([length, length], pa.duration("us")),
        "tags": pa.array([[("x y", 1)], []], pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))),
        "lengths": pa.array([[("a", None)], [("b", timedelta(minutes=1))]], pa.map_(pa.string(), pa.duration("ms"))),
    }
    pq.write_table(pa.table(columns), tmp_path / "shops.parquet")
    first, second = decoded(tmp_path / "shops.parquet")
    assert (first["opens"], second["opens"], first["closes"], first["took"]) == (clock, None, time(18), length)
    assert (first["tags"], second["tags"]) == ({"x y": 1}, {})
    assert (first["lengths"], second["lengths"]) == ({"a": None}, {"b": timedelta(minutes=1)})
    assert init(capsys, str(tmp_path / "p"), "--from", str(tmp_path / "shops.parquet"))[0] == 0
    text = (tmp_path / "p" / "definitions.py").read_text()
    for line in ("opens: time | None", "took: timedelta", "tags: dict[str, int]", "lengths: dict[str, timedelta | None]"):
        assert f"    {line}\n" in text


def assert_equal(written: Any, read: Any) -> None:
    """The value that was written is the value that was read, whatever its type is."""
    if isinstance(written, float):
        assert math.isclose(written, float(read), rel_tol=1e-15)
    elif isinstance(written, date) and not isinstance(written, datetime) and isinstance(read, datetime):
        assert read == datetime(written.year, written.month, written.day, tzinfo=UTC)
    elif isinstance(read, str) and not isinstance(written, str):
        assert read == plain(written)
    elif isinstance(written, str) and not isinstance(read, str):
        assert written in NULLS if read is None else Decimal(written) == Decimal(read)
    else:
        assert read == written or (written is None and read == "")


OF_ITS_OWN_FORMAT = {"access.log", "proxy.log", "auth.log"}
"""Files that only the server's configuration, or a declared year, explains."""
PAGE = [
    step
    for step in steps("your-files.md")
    if isinstance(step, File) and not step.name.endswith(".py") and step.name not in OF_ITS_OWN_FORMAT
]


@pytest.mark.parametrize("file", PAGE, ids=lambda file: file.name)
def test_a_file_of_the_page_is_read_by_definitions_begun_for_it(tmp_path: Path, file: File) -> None:
    file.write(tmp_path)
    begun = project_for_file(tmp_path / file.name, None)
    comments = sum(line.startswith("#") for line in file.text.splitlines())
    assert begun.tried.rejects.total == comments
    assert begun.tried.events == begun.tried.records - comments > 0


def init(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["init", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_project_checks_and_its_files_say_what_was_guessed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "City Trips.csv"
    rows = [f"{number},{number % 3:05d},2013-03-0{1 + number % 9} 10:00,{number}.50,NA" for number in range(1, 30)]
    file.write_text("\n".join(["trip_id,zip,pickup time,fare amount,note", *rows]))
    folder = tmp_path / "trips"
    code, out, err = init(capsys, str(folder), "--from", str(file), "--zone", "America/New_York")
    assert code == 0, err
    assert "of 29 rows 29 are events, 0 go to quarantine" in out
    text = (folder / "definitions.py").read_text()
    assert 'pickup_time: Annotated[datetime, Zone("America/New_York"), Name("pickup time")]' in text
    assert 'fare_amount: Annotated[Decimal, Scale(2), Name("fare amount")]' in text
    assert "# Digits with leading zeros are a code.\n    zip: str" in text
    assert 'identity=("trip_id",)' in text
    assert main(["check", "--project", str(folder), "--json"]) == 0
    capsys.readouterr()
    assert main(["try", "city_trips_by_zip", str(file), "--project", str(folder), "--json"]) == 0
    rows_of_view = json.loads(capsys.readouterr().out)["rows"]
    assert sum(row["city_trips"] for row in rows_of_view) == 29
    assert rows_of_view[0]["window_start"] == "2013-03-01T00:00:00Z"


@pytest.mark.parametrize(
    "rows",
    [
        "2026-11-01 08:00:00.0000000,1,NULL,abc\n2026-11-01 08:00:01.0000000,2,5,def\n",
        "01-NOV-26 08.00.00.000000 AM,NULL,a\n13-NOV-26 08.00.00.000000 PM,6,b\n",
    ],
    ids=["SQL Server", "Oracle"],
)
def test_a_first_row_with_a_time_is_an_event(tmp_path: Path, rows: str) -> None:
    (tmp_path / "a.csv").write_text(rows)
    begun = project_for_file(tmp_path / "a.csv", "Europe/Berlin")
    assert "columns=(" in begun.files["definitions.py"].decode()
    assert (begun.tried.events, begun.tried.rejects.total) == (2, 0)


def test_days_as_names_of_columns_are_a_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at,2020-01-22,2020-01-23\n2026-11-01T00:00:00Z,1,2\n2026-11-01T00:01:00Z,3,4\n")
    begun = project_for_file(tmp_path / "a.csv", None)
    assert "header=True" in begun.files["definitions.py"].decode()
    assert (begun.tried.events, begun.tried.rejects.total) == (2, 0)


def test_long_texts_and_line_breaks_in_quotes_are_texts(tmp_path: Path) -> None:
    file = tmp_path / "shapes.csv"
    shape = "POLYGON((" + "1 2, " * 40_000 + "))"
    write_csv([{"at": f"2026-11-01T00:00:0{second}Z", "note": "a\nb", "shape": shape} for second in range(3)], file)
    assert [(event["note"], len(event["shape"])) for event in decoded(file)] == [("a\nb", len(shape))] * 3
    assert "quote=None" not in project_for_file(file, None).files["definitions.py"].decode()


def test_more_lines_of_a_log_than_show_its_format_decide_the_first_view(tmp_path: Path) -> None:
    """A method that no line has in the first minutes is a key, and the window suits all hours."""
    first = datetime(2026, 11, 1, 8, tzinfo=UTC)
    file = tmp_path / "access.log"
    file.write_text(
        "".join(
            f"10.0.0.{number % 250} - - [{first + timedelta(minutes=number):%d/%b/%Y:%H:%M:%S %z}] "
            f'"{"HEAD" if number == 900 else "GET"} /{number} HTTP/1.1" 200 {number} "-" "agent {number % 40}"\n'
            for number in range(1_000)
        )
    )
    text = project_for_file(file, None).files["definitions.py"].decode()
    assert 'keys={"method": "method"}' in text
    assert "window=tumbling(hours=1)" in text


@pytest.mark.parametrize(
    ("rows", "declared", "first"),
    [
        (
            "Date;Time;code\n16/12/2006;17:24:00;007\n17/12/2006;00:25:00;12\n?;00:25:00;12\n",
            'Annotated[datetime, Format("%d/%m/%Y %H:%M:%S"), Zone("Europe/Rome")]',
            "2006-12-16T16:24:00+00:00",
        ),
        ("Time;Date;n\n18.00.00;30/03/2004;2,6\n", 'Format("%d/%m/%Y %H.%M.%S")', "2004-03-30T16:00:00+00:00"),
        ("Day,At hour\n3/29/2024,7:05 AM\n3/10/2024,11:45 PM\n", 'Format("%m/%d/%Y %I:%M %p")', "2024-03-29T06:05:00+00:00"),
        (
            "at_day|at_time\n2024-03-30|07:05:01.25\n",
            'Annotated[datetime, Zone("Europe/Rome")]',
            "2024-03-30T06:05:01.250000+00:00",
        ),
        ("2024-03-30|07:05|x\n2024-03-31|08:05|y\n", 'join={"at": ("column_1", "column_2")}', "2024-03-30T06:05:00+00:00"),
    ],
)
def test_a_day_and_a_time_of_day_in_two_columns_are_the_event_time(tmp_path: Path, rows: str, declared: str, first: str) -> None:
    file = tmp_path / "power.csv"
    file.write_text(rows)
    begun = project_for_file(file, "Europe/Rome")
    text = begun.files["definitions.py"].decode()
    assert declared in text
    assert begun.tried.rejects.reasons in ({}, {"missing_field": 1})
    (source,) = load_files(begun.files).sources.values()
    with file_values(source, file) as values:
        event = parser(source.event, source.decoder)(next(iter(values)).value)
    assert event.at.isoformat() == first


def test_a_time_of_day_beside_a_whole_time_is_a_text(tmp_path: Path) -> None:
    file = tmp_path / "power.csv"
    file.write_text(
        "at;Date;Time;code\n2006-12-16T17:24:00Z;16/12/2006;17:24:00;007\n2006-12-16T17:25:00Z;17/12/2006;00:25:00;12\n"
    )
    text = project_for_file(file, None).files["definitions.py"].decode()
    assert "# A time of day.\n    Time: str\n" in text
    assert "# Digits with leading zeros are a code.\n    code: str\n" in text


def test_numbers_of_orders_are_not_summed(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text(
        "at,Order No,City,Zip Code,Net\n" + "".join(f"2026-11-01T0{n}:00:00Z,{1000 + n},Oslo,1{n},{n}.50\n" for n in range(9))
    )
    text = project_for_file(file, None).files["definitions.py"].decode()
    assert 'total("Net")' in text
    assert 'total("order_no")' not in text
    assert 'total("zip_code")' not in text


def test_a_file_of_events_has_a_class_beside_the_platforms_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text("".join(f'{{"id": {number}, "at": "2026-11-01T08:00:00Z"}}\n' for number in range(20)))
    code, _, err = init(capsys, str(tmp_path / "project"), "--from", str(file))
    assert code == 0, err
    assert "class EventRecord(Event):" in (tmp_path / "project" / "definitions.py").read_text()


@pytest.mark.parametrize(
    ("stem", "source"),
    [
        ("Gro_handelspreise_202503010000_202511010000_Stunde", "gro_handelspreise_stunde"),
        ("sales-2026-01-31", "sales"),
        ("green_tripdata_2026-01", "green_tripdata"),
        ("export_2025-01-01_120000", "export"),
        ("20250301 orders", "orders"),
        ("2.5_month", "field_2_5_month"),
        ("web1999", "web1999"),
        ("2026-01-31", "field_2026_01_31"),
    ],
)
def test_a_date_in_a_files_name_is_in_no_name_of_the_project(tmp_path: Path, stem: str, source: str) -> None:
    file = tmp_path / f"{stem}.csv"
    # A field named time needs no import of that name.
    file.write_text("time,n\n2026-11-01T00:00:00Z,1\n2026-11-01T00:00:01Z,2\n")
    text = project_for_file(file, None).files["definitions.py"].decode()
    assert (f"\n{source} = Source(" in text, "from datetime import datetime\n" in text) == (True, True)


def test_a_sample_that_ends_inside_a_row_leaves_it_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_sample, "_MOST_ROWS", 6)
    file = tmp_path / "notes.csv"
    write_csv([{"at": f"2026-11-01T00:00:0{second}Z", "note": "one\ntwo"} for second in range(9)], file)
    begun = project_for_file(file, None)
    assert "quote=None" not in begun.files["definitions.py"].decode()
    assert (begun.tried.events, begun.tried.rejects.total) == (9, 0)


@pytest.mark.parametrize(
    ("key", "text", "unit"), [("event_timestamp", "1793520000123456", "us"), ("__REALTIME_TIMESTAMP", "1793520000", "s")]
)
def test_digits_in_a_text_are_a_time(tmp_path: Path, key: str, text: str, unit: str) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({key: text, "zip": "1793520000"}) + "\n")
    definitions = project_for_file(tmp_path / "a.jsonl", None).files["definitions.py"].decode()
    assert f'Annotated[datetime, Epoch("{unit}")' in definitions
    assert "zip: str" in definitions


def test_structs_lists_and_features_of_geojson(tmp_path: Path) -> None:
    start = datetime(2026, 11, 1, tzinfo=UTC)
    features = [
        {
            "type": "Feature",
            "id": f"q{number}",
            "properties": {"time": int((start + timedelta(minutes=number)).timestamp() * 1000), "mag": 0.5 + number, "net": "nc"},
            "geometry": {"type": "Point", "coordinates": [1.5, 2, number]},
        }
        for number in range(5)
    ]
    file = tmp_path / "quakes.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": features, "bbox": [0, 1]}))
    text = project_for_file(file, None).files["definitions.py"].decode()
    assert 'event_time="properties.time"' in text
    assert 'time: Annotated[datetime, Epoch("ms")]' in text
    assert "coordinates: list[float]" in text
    assert [event["id"] for event in decoded(file)] == [f"q{number}" for number in range(5)]


@pytest.mark.parametrize(
    ("texts", "annotations"),
    [
        ([("21,3", "-1,74"), ("7", "0,50"), ("-", "10,25")], ("float", "Annotated[Decimal, Scale(2)]")),
        ([("1,234", "5,678"), ("7,001", "2,500")], ("str", "str")),  # perhaps thousands
        ([("21,3", "1.5"), ("7,2", "2.5")], ("str", "float")),
        ([("21,3", "a"), ("7,2", "b,c")], ("float", "str")),
    ],
)
def test_decimal_commas_are_numbers_if_they_can_be_nothing_else(
    tmp_path: Path, texts: Sequence[tuple[str, str]], annotations: tuple[str, str]
) -> None:
    file = tmp_path / "air.csv"
    rows = "".join(f"{a};{b};2026-11-01T0{hour}:00:00Z\n" for hour, (a, b) in enumerate(texts))
    file.write_text(f"a;b;at\n{rows}")
    begun = project_for_file(file, None)
    text = begun.files["definitions.py"].decode()
    assert (begun.tried.events, begun.tried.rejects.total) == (len(texts), 0)
    a, b = annotations
    assert f"    a: {a}{' | None' if texts[-1][0] == '-' else ''}\n" in text
    assert f"    b: {b}\n" in text
    assert ('decimal=","' in text) == (a == "float")


@pytest.mark.parametrize(
    ("delimiter", "texts", "annotation", "options"),
    [
        (";", ["1.234,50", "12,00", "-3.001.234,5"], "Annotated[Decimal, Scale(2)]", 'decimal=",", thousands="."'),
        (",", ['"1,234.50"', "12.00"], "Annotated[Decimal, Scale(2)]", 'thousands=","'),
        (",", ['"1,234"', "12", '"12,001"'], "int", 'thousands=","'),
        (";", ["1,234,567", "12"], "int", 'thousands=","'),
        (";", ["1'234.50", "0.10"], "Annotated[Decimal, Scale(2)]", """thousands="'\""""),
        (";", ["1 234,50", "0,10"], "Annotated[Decimal, Scale(2)]", 'decimal=",", thousands=" "'),
        (";", ["555 123", "555 124"], "str", ""),  # perhaps of telephones
        (";", ["1,234", "5,678"], "str", ""),  # perhaps a fraction
        (";", ["1.234,50", "1,234.50"], "str", ""),
        (";", ["1.234.567", "0.123"], "str", ""),  # a zero begins no group
    ],
)
def test_signs_between_groups_of_digits(
    tmp_path: Path, delimiter: str, texts: Sequence[str], annotation: str, options: str
) -> None:
    file = tmp_path / "bank.csv"
    rows = [delimiter.join((f"2026-11-01T0{hour}:00:00Z", text)) for hour, text in enumerate(texts)]
    file.write_text(f"at{delimiter}net\n" + "\n".join(rows) + "\n")
    begun = project_for_file(file, None)
    text = begun.files["definitions.py"].decode()
    assert (begun.tried.events, begun.tried.rejects.total) == (len(texts), 0)
    assert f"    net: {annotation}\n" in text
    assert options in text
    assert ("thousands" in text) == bool(options)


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("a.csv", b"a,b\n1,2\n3,4\n", "no column is a time, which every event has; columns: a, b"),
        ("a.csv", b"", "has no lines"),
        ("a.json", b'{"Records": [{"eventTime": "2026-11-01T00:00:00Z"}]}', 'unnest="Records", max_events_per_record='),
        ("a.csv", b"at,b\n", "has a header, and no row with as many texts"),
        ("a.csv", b"# by us\nat,city,n\n2026-11-01T00:00:00Z,oslo,3\n2026-11-01T00:01:00Z,rome,2\n", "the rows begin in line 2"),
        ("a.jsonl", b"[1, 2]\n", "no line and no value of the file is a JSON object"),
        ("a.csv", b"SQLite format 3\0" + b"\0" * 100, "SQLite"),
        (
            "a.log",
            b'10.0.0.1 [01/Nov/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 5 0.01\n' * 3,
            'needs its own format: apache(format="',
        ),
        ("a.parquet", b"PAR1", "cannot read"),
        ("a.csv", "at;ort\n2026-11-01T00:00:00Z;Zürich\n".encode("latin-1"), "a.csv: line 2 is not UTF-8 (byte 0xfc); convert"),
    ],
)
def test_what_cannot_be_begun_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes, sentence: str
) -> None:
    (tmp_path / name).write_bytes(data)
    code, _, err = init(capsys, str(tmp_path / "project"), "--from", str(tmp_path / name))
    assert code == 1
    assert sentence in err
    assert not (tmp_path / "project").exists()


def test_options_that_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init(capsys, str(tmp_path / "p"), "--zone", "Europe/Oslo")[0] == 1
    (tmp_path / "a.jsonl").write_text('{"at": "2026-11-01T00:00:00Z"}\n')
    code, _, err = init(capsys, str(tmp_path / "p"), "--from", str(tmp_path / "a.jsonl"), "--zone", "Europe/Olso")
    assert (code, "Europe/Olso" in err) == (1, True)
    assert init(capsys, str(tmp_path / "p"), "--from", str(tmp_path))[0] == 1
    assert init(capsys, str(tmp_path / "p"), "--from", str(tmp_path / "a.jsonl"))[0] == 0
    assert "already has" in init(capsys, str(tmp_path / "p"), "--from", str(tmp_path / "a.jsonl"))[2]
