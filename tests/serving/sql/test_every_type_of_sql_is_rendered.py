"""For every type of DuckDB each format has the values of a result, at their limits too, or refuses the statement."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tandem.cli.ask.row_output import bytes_in
from tandem.cli.ask.sql_output import row_output
from tandem.serving.http.protocol.formats import Page, rendered
from tandem.serving.http.protocol.media_types import ARROW, CSV, JSON, MEDIA, NDJSON
from tandem.serving.sql import database
from tandem.serving.sql.limits import StatementLimits
from tandem.serving.sql.merged_views import MergedRows
from tandem.serving.sql.messages import StatementRefused
from tandem.serving.sql.result_rows import to_rows
from tests.serving.http.served import Asker, Served
from tests.serving.world import forty_hits

LIMITS = StatementLimits()
DATES = ("1970-01-01", "0001-01-01", "9999-12-31", "0044-03-15 (BC)", "10000-01-01", "infinity", "-infinity")
TIMES = (
    *("2026-11-01 08:00:00", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "0001-12-31 (BC) 23:59:59.5", "infinity"),
    *("-infinity", "290309-12-22 (BC) 00:00:00", "294247-01-10 04:00:54.775806"),
)
NANOSECONDS = (
    *("2026-11-01 08:00:00", "1677-09-22 00:00:00.000000001", "2262-04-11 23:47:16.854775806", "2026-11-01 08:00:00.00001"),
    *("infinity", "-infinity"),
)
OF_DAY = ("00:00:00", "23:59:59.999999", "08:00:00.1")
TEXTS: Mapping[str, tuple[str, ...]] = {
    "BOOLEAN": ("true", "false"),
    "TINYINT": ("-128", "127"),
    "SMALLINT": ("-32768", "32767"),
    "INTEGER": ("-2147483648", "2147483647"),
    "BIGINT": ("-9223372036854775808", "9223372036854775807"),
    "UTINYINT": ("0", "255"),
    "USMALLINT": ("0", "65535"),
    "UINTEGER": ("0", "4294967295"),
    "UBIGINT": ("0", "18446744073709551615"),
    "HUGEINT": (f"-{'9' * 38}", "0", "9" * 38),
    "UHUGEINT": ("0", "9" * 38),
    "DECIMAL(38,0)": (f"-{'9' * 38}", "9" * 38),
    "DECIMAL(38,38)": (f"0.{'9' * 38}", f"-0.{'0' * 37}1"),
    "DECIMAL(4,1)": ("-999.9", "0.0"),
    "FLOAT": ("1.5", "-0.25", "inf", "-inf", "nan"),
    "DOUBLE": ("1.7976931348623157e308", "5e-324", "inf", "-inf", "nan"),
    "VARCHAR": ("", "ä\N{GRINNING FACE}", 'a,"b"', "a\nb", "NULL", "a\x00b"),
    "JSON": ('{"a":[1,null]}', "null"),
    "BLOB": ("", r"\xFF\x00a"),
    "DATE": DATES,
    "TIMESTAMP": TIMES,
    "TIMESTAMP_S": tuple(text.partition(".")[0] for text in TIMES if not text.startswith("29")),
    "TIMESTAMP_MS": tuple(re.sub(r"(\.\d{3})\d*", r"\1", text) for text in TIMES if not text.startswith("29")),
    "TIMESTAMP_NS": NANOSECONDS,
    "TIMESTAMP WITH TIME ZONE": tuple(text if "inf" in text else f"{text}+00" for text in TIMES),
    "TIMESTAMPTZ_NS": tuple(text if "inf" in text else f"{text}+00" for text in NANOSECONDS),
    "TIME": OF_DAY,
    "TIME_NS": (*OF_DAY, "23:59:59.999999999"),
    "TIME WITH TIME ZONE": ("00:00:00+00", "24:00:00-15:59:59", "12:00:00.5+15:59"),
    "INTERVAL": ("00:00:00", "178956970 years 7 months", "1 year 2 days 00:00:03.5", "-3 days", "2562047:47:16"),
    "UUID": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "BIT": ("1", "0" * 65, "101"),
    "BIGNUM": ("0", "9" * 400, f"-{'9' * 400}"),
    "ENUM('a', 'b c')": ("a", "b c"),
    "VARIANT": ("a", ""),
    "GEOMETRY": ("POINT (1 2)",),
}
"""By type, values as DuckDB writes them, in one way each; NULL is drawn besides."""
COMPOSITE = {"LIST", "ARRAY", "STRUCT", "MAP", "UNION", "TUPLE"}
OTHERS = {"NULL", "TYPE"}
"""Without values that a text is cast to."""
POINT = "AQEAAAAAAAAAAADwPwAAAAAAAABA"
REFUSED = {
    "TIME '24:00:00'": "24:00:00",
    "'24:00:00'::TIME_NS": "24:00:00",
    "[{'a': TIME '24:00:00'}]": "24:00:00",
    "170141183460469231731687303715884105727::HUGEINT": "DECIMAL(38,0)",
    "(-170141183460469231731687303715884105728)::HUGEINT": "DECIMAL(38,0)",
    "340282366920938463463374607431768211455::UHUGEINT": "DECIMAL(38,0)",
    "[{'a': 340282366920938463463374607431768211455::UHUGEINT}]": "DECIMAL(38,0)",
}


@dataclass(frozen=True)
class Drawn:
    """An expression in SQL, its type, and its value as JSON has it."""

    sql: str
    type: str
    value: Any


def literal(text: str) -> str:
    return "'" + text.replace("'", "''").replace("\x00", "' || chr(0) || '") + "'"


def scalar(type_: str, text: str | None) -> Drawn:
    sql = "NULL" if text is None else f"({literal(text)})"
    return Drawn(f"CAST({sql} AS {type_})", type_, None if text is None else expected(type_, text))


def expected(type_: str, text: str) -> Any:
    """What JSON has of a value that DuckDB writes so."""
    if type_ == "BOOLEAN":
        return text == "true"
    if type_ in ("FLOAT", "DOUBLE"):
        return float(text) if re.search(r"\d", text) else None
    if type_.endswith("INT") or type_ in ("INTEGER", "UINTEGER", "DECIMAL(38,0)"):
        return int(text)
    if type_ == "BLOB":
        return {"": "", r"\xFF\x00a": "/wBh"}[text]
    if type_ == "GEOMETRY":
        return POINT
    if type_ == "VARIANT":
        return json.dumps(text)
    if type_ == "DATE" or type_.startswith("TIMESTAMP"):
        return instant(text)
    return padded(text) if type_ in ("TIME", "TIME_NS") else text


def instant(text: str) -> str:
    if "infinity" in text:
        return text
    year, rest, before, time, zone = re.fullmatch(r"(\d+)(-\d\d-\d\d)( \(BC\))?( [\d:.]+)?(\+00)?", text).groups()
    number = 1 - int(year) if before else int(year)
    shown_year = f"{number:04}" if 0 <= number <= 9999 else f"{number:+07}"
    return f"{shown_year}{rest}" + (f"T{padded(time.strip())}" if time else "") + ("Z" if zone else "")


def padded(text: str) -> str:
    whole, point, fraction = text.partition(".")
    return f"{whole}.{fraction.ljust(6 if len(fraction) <= 6 else 9, '0')}" if point else whole


def of_scalar() -> st.SearchStrategy[list[Drawn]]:
    """Three values of one type."""
    return st.sampled_from(sorted(TEXTS)).flatmap(
        lambda type_: st.lists(st.none() | st.sampled_from(TEXTS[type_]), min_size=3, max_size=3).map(
            lambda texts: [scalar(type_, text) for text in texts]
        )
    )


def nested(inner: st.SearchStrategy[list[Drawn]]) -> st.SearchStrategy[list[Drawn]]:
    """Three values of one type that holds others."""

    def listed(some: list[Drawn]) -> list[Drawn]:
        one = some[0]
        of = f"[{', '.join(each.sql for each in some)}]"
        found = [Drawn(of, f"{one.type}[]", [each.value for each in some]), Drawn("[]", "", []), Drawn("NULL", "", None)]
        return [Drawn(f"CAST({each.sql} AS {one.type}[])", f"{one.type}[]", each.value) for each in found]

    def fixed(some: list[Drawn]) -> list[Drawn]:
        type_ = f"{some[0].type}[2]"
        two = Drawn(f"array_value({some[0].sql}, {some[1].sql})", type_, [some[0].value, some[1].value])
        return [two, Drawn(f"CAST(NULL AS {type_})", type_, None), two]

    def struct(pair: tuple[list[Drawn], list[Drawn]]) -> list[Drawn]:
        type_ = f'STRUCT("a b" {pair[0][0].type}, "c""d" {pair[1][0].type})'
        found = [
            Drawn(f"CAST({{'a b': {one.sql}, 'c\"d': {other.sql}}} AS {type_})", type_, {"a b": one.value, 'c"d': other.value})
            for one, other in zip(*pair, strict=True)
        ]
        return [*found[:2], Drawn(f"CAST(NULL AS {type_})", type_, None)]

    def mapped(some: list[Drawn]) -> list[Drawn]:
        type_ = f"MAP(VARCHAR, {some[0].type})"
        keys = ("x", "y", "z")
        pairs = ", ".join(f"'{key}': {one.sql}" for key, one in zip(keys, some, strict=True))
        whole = Drawn(f"CAST(MAP {{{pairs}}} AS {type_})", type_, [[key, one.value] for key, one in zip(keys, some, strict=True)])
        return [whole, Drawn(f"CAST(MAP {{}} AS {type_})", type_, []), Drawn(f"CAST(NULL AS {type_})", type_, None)]

    def united(pair: tuple[list[Drawn], list[Drawn]]) -> list[Drawn]:
        first, second = pair
        type_ = f'UNION("one" {first[0].type}, "other" {second[0].type})'
        return [
            Drawn(f'CAST(union_value("one" := {first[0].sql}) AS {type_})', type_, first[0].value),
            Drawn(f'CAST(union_value("other" := {second[0].sql}) AS {type_})', type_, second[0].value),
            Drawn(f"CAST(NULL AS {type_})", type_, None),
        ]

    return st.one_of(
        inner.map(listed),
        inner.map(fixed),
        inner.map(mapped),
        st.tuples(inner, inner).map(struct),
        st.tuples(inner, inner).map(united),
    )


def columns() -> st.SearchStrategy[list[list[Drawn]]]:
    return st.lists(of_scalar() | nested(of_scalar() | nested(of_scalar())), min_size=1, max_size=3)


def result(statement: str) -> pa.Table:
    """What a statement's process gives."""
    with database.connect(LIMITS) as connection:
        _, stream = database.run(connection, statement, {}, LIMITS)
    table = pa.ipc.open_stream(stream).read_all()
    table.validate(full=True)
    return table


def assert_rendered(table: pa.Table, rows: list[dict[str, Any]]) -> None:
    """Each format has these rows."""
    page = Page(table, {"provenance": {}}, {}, rows_of=to_rows)
    assert json.loads(rendered(page, JSON))["rows"] == rows
    assert [json.loads(line) for line in rendered(page, NDJSON).splitlines()] == rows
    assert to_rows(pa.ipc.open_stream(rendered(page, ARROW)).read_all()) == rows
    head, *lines = csv.reader(io.StringIO(rendered(page, CSV).decode(), newline=""), strict=True)
    assert head == table.column_names
    assert len(lines) == len(rows)
    found = MergedRows(table, {})
    output = row_output(found, datetime(2026, 11, 1, tzinfo=UTC))
    assert json.loads(bytes_in(output, "json"))["rows"] == rows
    assert [json.loads(line) for line in bytes_in(output, "ndjson").splitlines()] == rows
    assert len(list(csv.reader(io.StringIO(bytes_in(output, "csv").decode(), newline=""), strict=True))) == len(rows) + 1
    Console(file=io.StringIO()).print(output.shown(), markup=False, highlight=False)


def test_every_type_of_this_duckdb_is_tested() -> None:
    known = set(result("SELECT DISTINCT logical_type AS name FROM duckdb_types()")["name"].to_pylist())
    assert known == {type_.partition("(")[0] for type_ in TEXTS} - {"JSON"} | COMPOSITE | OTHERS


@pytest.mark.parametrize("type_", TEXTS)
def test_the_limits_of_a_type_are_rendered(type_: str) -> None:
    drawn = [scalar(type_, text) for text in (*TEXTS[type_], None)]
    every = f"[{', '.join(one.sql for one in drawn)}]"
    values = [one.value for one in drawn]
    rows = [{"one": value, "every": values} for value in values]
    assert_rendered(result(f"SELECT unnest({every}) AS one, {every} AS every"), rows)


def test_results_in_several_pieces_are_rendered() -> None:
    drawn = {f"c{n}": [scalar(type_, texts[0]), scalar(type_, None)] for n, (type_, texts) in enumerate(TEXTS.items())}
    both = ", ".join(f"[{some[0].sql}, {some[1].sql}][1 + range % 2] AS {name}" for name, some in drawn.items())
    of = "[range] AS n, array_value(range, 7) AS a, MAP {'k': range} AS m, {'s': [range]} AS s, union_value(u := range) AS u"
    table = result(f"SELECT {both}, {of} FROM range({2 * database._PIECE + 1})")
    assert table["n"].num_chunks > 1
    read = pa.ipc.open_stream(rendered(Page(table, {"provenance": {}}, {}, rows_of=to_rows), ARROW)).read_all()
    for place in (0, 1, database._PIECE - 1, database._PIECE, 2 * database._PIECE):
        wanted = {name: some[place % 2].value for name, some in drawn.items()}
        wanted |= {"n": [place], "a": [place, 7], "m": [["k", place]], "s": {"s": [place]}, "u": place}
        assert to_rows(table.slice(place, 1)) == to_rows(read.slice(place, 1)) == [wanted]


@given(drawn=columns())
def test_nested_types_are_rendered(drawn: list[list[Drawn]]) -> None:
    rows = [", ".join(f"{column[row].sql} AS c{place}" for place, column in enumerate(drawn)) for row in range(3)]
    table = result(f"FROM ({' UNION ALL '.join(f'SELECT {row}, {n} AS n' for n, row in enumerate(rows))}) ORDER BY n")
    assert_rendered(
        table, [{**{f"c{place}": column[row].value for place, column in enumerate(drawn)}, "n": row} for row in range(3)]
    )


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("NULL", None),
        ("[]", []),
        ("{'a': NULL}", {"a": None}),
        ("get_type(1)", "INTEGER"),
        ("row(1::HUGEINT, INTERVAL 1 DAY)", {"element1": 1, "element2": "1 day"}),
        ("(1, 'a')", {"element1": 1, "element2": "a"}),
        ("{'a': 1, 'b': ['x']}::VARIANT", '{"a":1,"b":["x"]}'),
        ("(INTERVAL (9223372036854775) MICROSECOND)", "2562047:47:16.854776"),
    ],
)
def test_values_that_cannot_be_cast_from_text_are_rendered(sql: str, value: Any) -> None:
    assert_rendered(result(f"SELECT {sql} AS n, {sql} AS m"), [{"n": value, "m": value}])


def test_columns_of_one_name_stay_apart() -> None:
    table = result("SELECT 1::HUGEINT AS n, 2 AS n, INTERVAL 3 DAY AS n")
    assert [column.to_pylist() for column in table.columns] == [[1], [2], ["3 days"]]
    assert table.column_names == ["n", "n", "n"]


@pytest.mark.parametrize("sql", REFUSED)
def test_values_that_no_format_supports_are_refused(sql: str) -> None:
    with pytest.raises(StatementRefused, match=re.escape(REFUSED[sql])):
        result(f"SELECT {sql} AS v")


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    with Served(forty_hits(tmp_path_factory.mktemp("world"))).asker() as found:
        yield found


def test_a_server_returns_every_type_in_every_format(asker: Asker) -> None:
    drawn = {f"c{n}": [scalar(type_, text) for text in texts] for n, (type_, texts) in enumerate(TEXTS.items())}
    statement = "SELECT " + ", ".join(f"[{', '.join(one.sql for one in some)}] AS {name}" for name, some in drawn.items())
    for media in MEDIA:
        answer = asker.post("/sql", json={"statement": statement}, headers={"Accept": media})
        assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, media), answer.text
        if media == JSON:
            assert answer.json()["rows"] == [{name: [one.value for one in some] for name, some in drawn.items()}]


@pytest.mark.parametrize("media", MEDIA)
def test_a_refusal_of_a_server_has_its_reason(asker: Asker, media: str) -> None:
    for sql, said in REFUSED.items():
        answer = asker.post("/sql", json={"statement": f"SELECT {sql} AS v"}, headers={"Accept": media})
        assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json"), answer.text
        assert said in answer.json()["detail"]
