"""docs/sql-definitions.md: its project works, both columns of each table row mean the same, its error is printed as shown."""

import re
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

import tandem
from tandem.cli.__main__ import main
from tandem.views.errors import DefinitionError
from tandem.views.project.project import load
from tandem.views.sql_definitions.compile import compile_sql
from tests.documented import DOCS
from tests.views.sql_definitions.test_sql_means_its_python import namespace_of

PAGE = (DOCS / "sql-definitions.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILES = {name: text for _, name, text in BLOCKS if name}
SHOWN = [text for language, _, text in BLOCKS if language == "text"]
SOURCE = FILES["definitions.sql"].partition("CREATE VIEW")[0]
NAMES = {name: getattr(tandem, name) for name in tandem.__all__} | {"timedelta": timedelta, "Decimal": Decimal}


def rows(heading: str) -> list[tuple[str, str]]:
    """The rows of the table whose first column has this heading: SQL and Python."""
    table = PAGE.partition(f"| {heading} | in Python |\n")[2].partition("\n\n")[0]
    return [(line.split("` | `")[0][3:], line.split("` | `")[1][:-3]) for line in table.splitlines()[1:]]


@pytest.mark.parametrize(("sql", "python"), rows("window"))
def test_each_window_is_the_one_beside_it(sql: str, python: str) -> None:
    view = namespace_of(f"{SOURCE}CREATE VIEW one AS SELECT count(*) AS n FROM orders GROUP BY {sql}")["one"]
    assert view.window == eval(python, dict(NAMES))


@pytest.mark.parametrize(("sql", "python"), rows("measure"))
def test_each_measure_is_the_one_beside_it(sql: str, python: str) -> None:
    view = namespace_of(f"{SOURCE}CREATE VIEW one AS SELECT {sql} AS n FROM orders")["one"]
    assert view.measures["n"] == eval(python, dict(NAMES))


@pytest.mark.parametrize(
    ("column", "annotation"),
    [
        ("x SMALLINT NOT NULL", "x: int"),
        ("x DOUBLE PRECISION DEFAULT -0.5 NOT NULL", "x: float = -0.5"),
        ("x NUMERIC(10, 3)", "x: Annotated[Decimal, Scale(3)] | None = None"),
        ("x VARCHAR(20) NOT NULL", "x: Annotated[str, msgspec.Meta(max_length=20)]"),
        ("x TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL", "x: datetime"),
        ("x TEXT[][] NOT NULL", "x: list[list[str]]"),
        ("x MAP<TEXT, ARRAY<BIGINT>> NOT NULL", "x: dict[str, list[int]]"),
        ("x MAP(TEXT, BIGINT) NOT NULL", "x: dict[str, int]"),
        ("x TEXT COMMENT 'a note'", 'x: Annotated[str, msgspec.Meta(description="a note")] | None = None'),
        ("x TEXT NOT NULL COMMENT 'a \"b\"' OPTIONS (name = 'US Gross')", 'x: Annotated[str, Name("US Gross"), msgspec.Meta('),
        ("x TIMESTAMP NOT NULL OPTIONS (epoch = 'ms')", 'x: Annotated[datetime, Epoch("ms")]'),
        (
            "x DECIMAL(38, 2) NOT NULL OPTIONS (rounding = 'half_even', unit = 'EUR')",
            ', Scale(2, rounding="half_even"), Unit("EUR")]',
        ),
        ("x STRUCT<a BIGINT NOT NULL, b ROW<c TEXT>> NOT NULL", "x: SX"),
    ],
)
def test_each_type_is_an_annotation(column: str, annotation: str) -> None:

    sql = f"CREATE SOURCE s (at TIMESTAMP NOT NULL, {column}, WATERMARK FOR at)"
    assert annotation in compile_sql(sql, "definitions.sql").text
    assert namespace_of(sql)["s"].event.__name__ == "S"


def project(folder: Path, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in {"tandem__toml": "", **files}.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_the_project_of_the_page_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project(tmp_path, definitions__sql=FILES["definitions.sql"], orders__jsonl=FILES["orders.jsonl"]))
    assert main(["check"]) == 0
    assert main(["try", "sales", "orders.jsonl"]) == 0
    out = capsys.readouterr().out
    assert re.search(SHOWN[0].strip().replace("...", ".*"), out), out


def test_the_query_of_the_page_is_translated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project(tmp_path, by_hour__sql=FILES["by_hour.sql"]))
    assert main(["translate", "by_hour.sql", "--dialect", "flink"]) == 0
    assert capsys.readouterr().out == SHOWN[2]


def test_the_error_of_the_page_is_shown(tmp_path: Path) -> None:
    folder = project(tmp_path, definitions__sql=FILES["definitions.sql"] + FILES["wrong.sql"])
    with pytest.raises(DefinitionError) as error:
        load(folder)
    assert str(error.value) == SHOWN[1].rstrip("\n")
