"""`query` and `sql` give the same exact values in every format, and windows of a zone on that zone's clocks."""

import csv
import io
import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tandem.cli.__main__ import main
from tandem.serving.read.row_bytes import csv as csv_bytes
from tests.cli.demo.terminal import read_to_end
from tests.serving.world import World

DEFINITIONS = """
from datetime import datetime
from decimal import Decimal
from typing import Annotated

from tandem import Event, Scale, Source, View, calendar, count, maximum, mean, total


class Sale(Event):
    at: datetime
    city: str | None
    amount: Annotated[Decimal, Scale(2)]
    big: int


hits = Source(topic="hits", event=Sale, event_time="at")

days = View(
    source=hits,
    keys={"city": "city"},
    window=calendar("day", zone="America/New_York"),
    measures={"n": count(), "sum": total("amount"), "most": maximum("amount"), "big": total("big"), "mean": mean("big")},
)

SOURCES = (hits,)
VIEWS = (days,)
"""
HUGE = 2**63 - 1
SALES = [
    ("2013-03-09T04:59:59Z", "OSLO", "1.10", 1),  # 8 March there
    ("2013-03-09T05:00:00Z", "OSLO", "2.20", 2),
    ("2013-03-10T05:30:00Z", 'say "hi", you', "3.00", 3),  # the day of 23 hours
    ("2013-03-11T03:59:59Z", None, "4.00", HUGE),
    ("2013-03-11T03:59:59.5Z", None, "4.00", HUGE),
    ("2013-03-11T04:00:00Z", "", "99999999999999999999.99", HUGE),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(tmp_path_factory.mktemp("zoned"), definitions=DEFINITIONS)
    values = [json.dumps({"at": at, "city": city, "amount": amount, "big": big}) for at, city, amount, big in SALES]
    made.append(0, *(value.encode() for value in values))
    made.trigger()
    return made


@pytest.fixture
def asked(world: World, capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[..., bytes]:
    """What a command writes to standard output."""

    def ask(*words: str, code: int = 0) -> bytes:
        done = main([*words, "--project", str(world.folder)])
        shown = capsysbinary.readouterr()
        assert done == code, shown.err
        return shown.out or shown.err

    return ask


def instants(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows whose window bounds are instants, and without what JSON adds."""
    return [
        {
            name: datetime.fromisoformat(value).astimezone(UTC) if name in ("window_start", "window_end") else value
            for name, value in row.items()
            if not name.startswith("_")
        }
        for row in rows
    ]


def test_every_format_has_every_digit_and_null(asked: Callable[..., bytes], tmp_path: Path) -> None:
    rows = json.loads(asked("query", "days", "--json"))["rows"]
    assert [row["big"] for row in rows if row["city"] is None] == [2 * HUGE]
    assert [row["sum"] for row in rows if row["city"] == ""] == ["99999999999999999999.99"]
    assert json.loads(asked("query", "days", "--format", "json"))["rows"] == rows
    assert [json.loads(line) for line in asked("query", "days", "--format", "ndjson").splitlines()] == rows
    table = pa.ipc.open_stream(asked("query", "days", "--format", "arrow")).read_all()
    file = tmp_path / "days.parquet"
    assert asked("query", "days", "--out", str(file)) == f"wrote 5 rows to {file}\n".encode()
    # A link stays a link; a device is written to, not replaced.
    (link := file.parent / "latest.parquet").symlink_to(file)
    file.write_bytes(b"")
    asked("query", "days", "--out", str(link))
    assert (link.is_symlink(), file.read_bytes()[:4]) == (True, b"PAR1")
    terminal, device = os.openpty()
    asked("query", "days", "--out", os.ttyname(device), "--format", "ndjson")
    os.close(device)
    assert [json.loads(line) for line in read_to_end(terminal).splitlines()] == rows
    for typed in (table, pq.read_table(file)):
        assert typed.schema.field("window_start").type == pa.timestamp("us", "America/New_York")
        for column, of in (("sum", Decimal), ("big", int), ("city", str), ("mean", float)):
            assert [None if row[column] is None else of(row[column]) for row in rows] == typed[column].to_pylist()
        assert [row["window_start"] for row in instants(rows)] == typed["window_start"].to_pylist()
        assert json.loads(typed.schema.metadata[b"provenance"])["publication"] == 1


def test_csv_tells_null_from_an_empty_text(asked: Callable[..., bytes]) -> None:
    lines = asked("query", "days", "--format", "csv", "--columns", "city,sum", "--order-by", "city").decode().splitlines()
    assert lines == [
        "city,sum",
        '"",99999999999999999999.99',
        "OSLO,1.10",
        "OSLO,2.20",
        '"say ""hi"", you",3.00',
        ",8.00",
    ]
    cells = list(csv.reader(io.StringIO(asked("query", "days", "--format", "csv").decode())))
    rows = json.loads(asked("query", "days", "--json"))["rows"]
    assert [line[cells[0].index("big")] for line in cells[1:]] == [str(row["big"]) for row in rows]
    assert csv_bytes(["a", "b"], [[True, [1, "x"]], [1.5, " "]], line_end="\n", all_quoted=False) == (
        b'a,b\ntrue,"[1,""x""]"\n1.5," "\n'
    )


def test_rows_are_ordered_before_they_are_limited(asked: Callable[..., bytes]) -> None:
    rows = json.loads(asked("query", "days", "--json"))["rows"]
    by = sorted(rows, key=lambda row: (-Decimal(row["sum"]), row["window_start"]))
    chosen = json.loads(asked("query", "days", "--json", "--order-by", "sum desc, window_start", "--limit", "2"))["rows"]
    assert chosen == by[:2]
    assert b"2 of 5 rows" in asked("query", "days", "--order-by", "sum desc", "--limit", "2")
    assert b"no column 'smu'; columns: sum, " in asked("query", "days", "--order-by", "smu", code=1)
    assert b"invalid order 'sum down'" in asked("query", "days", "--order-by", "sum down", code=1)
    assert b"no column 'town'" in asked("query", "days", "--columns", "town", code=1)


def test_windows_of_a_zone_are_on_its_clocks(asked: Callable[..., bytes]) -> None:
    short = ("query", "days", "--columns", "window_start,window_end,n", "--format", "csv")
    lines = asked(*short).decode().splitlines()
    assert lines[1:] == [
        "2013-03-08T00:00:00-05:00,2013-03-09T00:00:00-05:00,1",
        "2013-03-09T00:00:00-05:00,2013-03-10T00:00:00-05:00,1",
        "2013-03-10T00:00:00-05:00,2013-03-11T00:00:00-04:00,1",
        "2013-03-10T00:00:00-05:00,2013-03-11T00:00:00-04:00,2",
        "2013-03-11T00:00:00-04:00,2013-03-12T00:00:00-04:00,1",
    ]
    assert asked(*short, "--utc").decode().splitlines()[1] == "2013-03-08T05:00:00Z,2013-03-09T05:00:00Z,1"
    assert b"2013-03-08T00:00:00-05:00" in asked("query", "days")
    document = json.loads(asked("query", "days", "--json"))
    assert document["zone"] == "America/New_York"
    for row in document["rows"]:
        local = row["_local"]
        assert row["window_start"].endswith("Z")
        assert instants([{"window_start": local["window_start"]}]) == instants([{"window_start": row["window_start"]}])
        assert datetime.fromisoformat(local["window_start"]).time() == datetime.min.time()
    assert "zone" not in json.loads(asked("query", "days", "--json", "--utc"))


@pytest.mark.parametrize(("day", "hours", "n"), [("2013-03-09", 24, 1), ("2013-03-10", 23, 3), ("2013-03-11", 24, 1)])
def test_a_date_is_the_midnight_of_the_views_zone(asked: Callable[..., bytes], day: str, hours: int, n: int) -> None:
    after = str(datetime.fromisoformat(day).date() + timedelta(days=1))
    rows = json.loads(asked("query", "days", "--json", "--from", day, "--to", after))["rows"]
    assert sum(row["n"] for row in rows) == n
    assert {window["window_end"] - window["window_start"] for window in instants(rows)} == {timedelta(hours=hours)}
    assert json.loads(asked("query", "days", "--json", "--utc", "--from", day, "--to", f"{day}T04:00"))["rows"] == []
    assert b"times without a zone are in America/New_York" in asked("query", "days", "--from", "noon", code=1)


@pytest.mark.slow
def test_sql_has_the_same_formats(asked: Callable[..., bytes], tmp_path: Path) -> None:
    statement = "SELECT city, sum(sum) AS sum, sum(big) AS big FROM days GROUP BY city ORDER BY city"
    rows = json.loads(asked("sql", statement, "--json"))["rows"]
    assert [json.loads(line) for line in asked("sql", statement, "--format", "ndjson").splitlines()] == rows
    file = tmp_path / "cities.arrow"
    assert json.loads(asked("sql", statement, "--out", str(file), "--json")) == {
        "file": str(file),
        "format": "arrow",
        "rows": len(rows),
    }
    table = pa.ipc.open_stream(file.read_bytes()).read_all()
    assert [str(value) for value in table["sum"].to_pylist()] == [row["sum"] for row in rows]
    assert asked("sql", statement, "--format", "csv").decode().splitlines()[1] == '"",99999999999999999999.99,9223372036854775807'


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--json", "--format", "csv"], "--json and --format csv cannot be combined"),
        (["--out", "days.txt"], "no format has the suffix '.txt'; add --format"),
        (["--out", "days.csv", "--format", "table"], "--format table is for a terminal, not for --out"),
        (["--out", "/nowhere/days.csv"], "cannot write /nowhere/days.csv: No such file or directory"),
    ],
)
def test_a_wrong_choice_is_one_sentence(asked: Callable[..., bytes], options: list[str], sentence: str) -> None:
    assert sentence in asked("query", "days", *options, code=1).decode()


def test_a_terminal_gets_no_bytes(asked: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert b"--format parquet is not for a terminal; add --out FILE" in asked("query", "days", "--format", "parquet", code=1)


def test_a_narrow_terminal_breaks_no_number_and_no_time(asked: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    words = asked("query", "days", "--columns", "city,window_start,window_end,n,big").decode().split()
    assert {"2013-03-10", "00:00:00-05:00", "00:00:00-04:00", str(2 * HUGE)} <= set(words)
    wide = re.sub(r"\x1b\[\d*m", "", asked("query", "days").decode()).splitlines()
    assert wide[:2] == ["city          OSLO", "window_start  2013-03-08T00:00:00-05:00"]


@pytest.mark.parametrize("options", [["--json"], ["--out", "rows.csv"], ["--format", "arrow"], ["--format", "parquet"]])
def test_a_prompt_prints_texts_alone(asked: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    assert b"needs a statement as an argument or on standard input" in asked("sql", *options, code=1)
