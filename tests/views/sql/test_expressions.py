"""An expression is scalar, deterministic and closed: what is not is refused by name, what is has a type that Delta knows."""

from datetime import UTC as ZONE
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import msgspec
import pyarrow as pa
import pytest

from tandem.views.errors import DefinitionError
from tandem.views.kernel.kernel import merge, partial, present
from tandem.views.measures import approx_count_distinct, approx_quantiles, count, mean, minimum, total
from tandem.views.source.event import Event, Scale, event_schema
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.source import Source
from tandem.views.sql.expressions import Expression, bind_expression
from tandem.views.sql.syntax import canonical, parse
from tandem.views.view import View
from tests.samples import WIDE

HUGE, UTC = pa.decimal128(38, 0), pa.timestamp("us", "UTC")


class Place(msgspec.Struct):
    lat: float
    name: str


class Request(Event):
    at: datetime
    user: str
    path: str
    status: int
    raw: bytes
    bytes: int
    ms: float
    price: Annotated[Decimal, Scale(2)]
    tags: list[str]
    geo: Place
    Mixed: bool


REQUESTS = Source(topic="requests", event=Request, event_time="at")


def bound(text: str) -> Expression:
    return bind_expression(text, event_schema(Request), "Request")


ALLOWED: dict[str, pa.DataType] = {
    "path": pa.string(),
    "PATH": pa.string(),
    "user": pa.string(),
    '"user"': pa.string(),
    "mixed": pa.bool_(),
    "status": pa.int64(),
    "status + 1": pa.int64(),
    "CAST(status AS TINYINT)": pa.int64(),
    "CAST(status AS UINTEGER)": pa.int64(),
    "CAST(status AS UBIGINT)": HUGE,
    "CAST(status AS UHUGEINT)": HUGE,
    "bytes::HUGEINT * bytes": HUGE,
    "100000000000000000000": HUGE,
    "status / 100": pa.float64(),
    "status // 100": pa.int64(),
    "CAST(ms AS FLOAT)": pa.float64(),
    "1.50": pa.decimal128(3, 2),
    "price": pa.decimal128(38, 2),
    "CAST(price AS DECIMAL(9, 1))": pa.decimal128(9, 1),
    "raw": pa.binary(),
    "x'00ff'": pa.binary(),
    "status < 500": pa.bool_(),
    "status < 500 AND NOT mixed OR NULL": pa.bool_(),
    "status IN (200, 404)": pa.bool_(),
    "status BETWEEN 200 AND 299": pa.bool_(),
    "path IS NOT DISTINCT FROM 'x'": pa.bool_(),
    "path LIKE '/a%' AND path NOT ILIKE '%b' AND path SIMILAR TO '.*'": pa.bool_(),
    "CASE WHEN status > 499 THEN 'bad' ELSE path END": pa.string(),
    "coalesce(nullif(path, ''), '-')": pa.string(),
    "if(mixed, 1, 2)": pa.int64(),
    "split_part(path, '/', 2)": pa.string(),
    "regexp_extract(path, '^/([^/]+)', 1)": pa.string(),
    "upper(path) || '-' || status": pa.string(),
    "md5(path)": pa.string(),
    "hash(path) % 10": HUGE,
    "geo.lat": pa.float64(),
    "geo.name": pa.string(),
    "struct_extract(geo, 'name')": pa.string(),
    "tags[1]": pa.string(),
    "len(tags)": pa.int64(),
    "array_to_string(tags, ',')": pa.string(),
    "list_sum([status, 1])": HUGE,
    "list_aggregate(tags, 'max')": pa.string(),
    "list_contains(tags, path)": pa.bool_(),
    "path IN tags": pa.bool_(),
    "len(list_filter(tags, lambda tag: tag <> path))": pa.int64(),
    "list_transform(tags, lambda t, i: t || i)[1]": pa.string(),
    "[t || '!' FOR t IN tags IF t <> ''][1]": pa.string(),
    "path -> '$.a'": pa.string(),
    "path ->> '$.a'": pa.string(),
    "json_extract_string(path, '$.a')": pa.string(),
    "CAST('01234567-89ab-cdef-0123-456789abcdef' AS UUID)": pa.string(),
    "CAST('a' AS ENUM('a', 'b'))": pa.string(),
    "date_trunc('hour', \"at\")": UTC,
    'extract(hour FROM "at")': pa.int64(),
    '"at" + INTERVAL 1 DAY': UTC,
    "\"at\" AT TIME ZONE 'Europe/Oslo' AT TIME ZONE 'UTC'": UTC,
    'CAST("at" AS DATE)': pa.date32(),
    "DATE '2026-01-01'": pa.date32(),
    "strftime(\"at\", '%H:%M')": pa.string(),
    'age("at", "at") > INTERVAL 1 DAY': pa.bool_(),
    'epoch_us("at")': pa.int64(),
    "TRY(CAST(path AS INTEGER))": pa.int64(),
    "TRY_CAST(path AS INTEGER)": pa.int64(),
    "path -- what follows is a comment, a ) too": pa.string(),
    "path /* ) */": pa.string(),
    " \n\tpath\n ": pa.string(),
    "(((path)))": pa.string(),
    "CAST(NULL AS VARCHAR)": pa.string(),
    "'it''s'": pa.string(),
    "'🙂'": pa.string(),
    "to_days(1) = INTERVAL 1 DAY": pa.bool_(),
    "greatest(status, bytes)": pa.int64(),
    "round(ms, 1)": pa.float64(),
    "TRUE": pa.bool_(),
    "1": pa.int64(),
}


@pytest.mark.parametrize("text", ALLOWED)
def test_scalar_expressions_have_types_that_delta_knows(text: str) -> None:
    assert bound(text).type.arrow == ALLOWED[text]


EXTREMES: list[dict[str, object]] = [
    {
        "at": at,
        "user": text,
        "path": text,
        "status": number,
        "bytes": number,
        "ms": ms,
        "price": price,
        "tags": [text, text] if ms else [],
        "geo": {"lat": ms, "name": text},
        "raw": text.encode(),
        "Mixed": ms > 0,
    }
    for at in (datetime(1, 1, 1, tzinfo=ZONE), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=ZONE))
    for text in ("", "\0", "🙂", "12", "/a/b", '{"a": 1}')
    for number in (0, 2**63 - 1, -(2**63))
    for ms, price in ((0.0, Decimal(10**38 - 1).scaleb(-2, WIDE)), (1.7976931348623157e308, Decimal(0)))
]


@pytest.mark.parametrize("text", ALLOWED)
def test_no_event_makes_a_statement_fail(text: str) -> None:
    """Each event is counted or rejected, whatever the expression makes of it."""
    measures = {"n": count(), "low": minimum(text), "different": approx_count_distinct(text)}
    for more in ({}, {"total": total(text), "mean": mean(text), "q": approx_quantiles(text, (0.5,))}):
        if more and not bound(text).type.number:
            continue
        view = View(REQUESTS, keys={"k": text}, measures={**measures, **more})
        folded = partial(view, pa.Table.from_pylist(EXTREMES, schema=event_schema(Request)), EMPTY)
        answers = present(
            view, merge(view, [folded, partial(view, pa.Table.from_pylist([], schema=event_schema(Request)), EMPTY)])
        )
        assert sum(answers["n"].to_pylist()) + sum(folded.rejected.values()) == len(EXTREMES)


REFUSED = {
    # what no event answers
    "now()": "now reads the clock or the session",
    "today()": "today reads the clock",
    "current_date": "current_date reads the clock",
    "CURRENT_TIMESTAMP": "current_timestamp reads the clock",
    "current_time": "reads the clock",
    "localtimestamp": "reads the clock",
    "current_localtimestamp()": "reads the clock",
    "get_current_timestamp()": "reads the clock",
    "transaction_timestamp()": "reads the clock",
    "epoch(now()) > 0": "reads the clock",
    'age("at")': "age reads the clock",
    "date_diff('day', \"at\", now())": "reads the clock",
    "ago(INTERVAL 1 DAY)": "reads the clock",
    "current_user": "reads the clock or the session",
    "session_user": "reads the clock or the session",
    "current_setting('TimeZone')": "reads the clock or the session",
    "getvariable('x')": "reads the clock or the session",
    "current_database()": "reads the clock or the session",
    "current_schema": "reads the clock or the session",
    "version()": "reads the clock or the session",
    "getenv('HOME')": "reads the clock or the session",
    "txid_current()": "reads the clock or the session",
    "pg_typeof(path)": "there is no function pg_typeof",
    "pg_conf_load_time()": "there is no function",
    # what differs at every call
    "random()": "another value at every call",
    "random() < 0.1 AND status = 200": "another value at every call",
    "uuid()": "another value at every call",
    "gen_random_uuid()": "another value at every call",
    "uuidv7()": "another value at every call",
    "setseed(0.5)": "another value at every call",
    "nextval('s')": "another value at every call",
    "currval('s')": "another value at every call",
    "error('x')": "another value at every call",
    "sleep_ms(1)": "another value at every call",
    "write_log(path)": "another value at every call",
    "len(list_transform(tags, lambda t: random()))": "another value at every call",
    "CASE WHEN FALSE THEN random() ELSE 1 END": "another value at every call",
    "list_aggregate([1, 2], 'reservoir_quantile', 0.5)": "the name of a deterministic aggregate",
    "list_aggregate(tags, path)": "the name of a deterministic aggregate",
    # what looks at other events
    "sum(bytes)": "sum is an aggregate",
    "count(*)": "count_star is an aggregate",
    "count()": "is an aggregate",
    "max(status) > 3": "max is an aggregate",
    "avg(ms) FILTER (status > 1)": "avg is an aggregate",
    "list(path)": "list is an aggregate",
    "string_agg(path, ',')": "string_agg is an aggregate",
    "approx_count_distinct(path)": "is an aggregate",
    "weighted_avg(ms, bytes)": "sum is an aggregate",
    "geomean(ms)": "avg is an aggregate",
    "sum(bytes) OVER ()": "reads other events",
    "row_number() OVER ()": "reads other events",
    "lag(path) OVER (ORDER BY bytes)": "reads other events",
    "row_number()": "row_number is a window function",
    "grouping(path)": "cannot be computed from one event",
    # what reads tables and files
    "(SELECT 1)": "a subquery reads tables",
    "(FROM duckdb_settings())": "a subquery reads tables",
    "SELECT 1": "a subquery reads tables",
    "TABLE t": "a subquery reads tables",
    "VALUES (1)": "a subquery reads tables",
    "EXISTS (SELECT 1)": "a subquery reads tables",
    "status IN (SELECT 200)": "a subquery reads tables",
    "status = ANY (SELECT 200)": "a subquery reads tables",
    "path = ANY(tags)": "a subquery reads tables",
    "ARRAY(SELECT 1)": "a subquery reads tables",
    "read_csv('/etc/passwd')": "read_csv reads tables or files",
    "read_text('/etc/passwd')": "read_text reads tables or files",
    "read_parquet('x')": "read_parquet reads tables or files",
    "read_json('x')": "read_json reads tables or files",
    "glob('*')": "glob reads tables or files",
    "duckdb_secrets()": "reads tables or files",
    "query('SELECT 1')": "query reads tables or files",
    "pragma_version()": "reads tables or files",
    "unnest(tags)": "unnest makes several rows",
    "generate_subscripts(tags, 1)": "unnest makes several rows",
    "regexp_split_to_table(path, '/')": "unnest makes several rows",
    # what is not one value
    "*": "a star is many columns",
    "geo.*": "a star is many columns",
    "COLUMNS('p.*')": "a star is many columns",
    "COLUMNS(*)": "a star is many columns",
    "* EXCLUDE (path)": "a star is many columns",
    "#1": "names here, not numbers",
    "?": "a parameter has no value",
    "$1": "a parameter has no value",
    "$name": "a parameter has no value",
    "DEFAULT": "cannot be computed from one event",
    "lambda x: x": "does not fit its event",
    "path, status": "is of type TUPLE",
    "(path, status)": "is of type TUPLE",
    # what is not one expression
    "": "an expression is empty",
    "  \n": "an expression is empty",
    "-- nothing": "is of type TUPLE",
    "path; SELECT 1": "is not SQL",
    "path;": "is not SQL",
    "path AS p": "is not SQL",
    "(path": "is not SQL",
    "path)": "is not SQL",
    "'path": "is not SQL",
    "path /* open": "is not SQL",
    "1) FROM duckdb_settings() WHERE (TRUE": "is more than one expression",
    "1) WHERE (TRUE": "is more than one expression",
    "1), (2": "is more than one expression",
    "1) LIMIT (1": "is more than one expression",
    "1) ORDER BY (1": "is more than one expression",
    "1) GROUP BY (1": "is more than one expression",
    "1) HAVING (TRUE": "is more than one expression",
    "1) QUALIFY (TRUE": "is more than one expression",
    "1) UNION (SELECT 2": "is more than one expression",
    "1) USING SAMPLE (1": "is",
    "1); DROP TABLE (t": "is",
    "1) INTO (t": "is not SQL",
    "DROP TABLE t": "is not SQL",
    "COPY t TO 'x'": "is not SQL",
    "SET threads = 4": "is not SQL",
    "PRAGMA version": "is",
    # names
    "pth": "names a field 'pth' that Request does not have; fields: path,",
    "rowid": "names a field 'rowid' that Request does not have",
    "_offset": "names a field '_offset' that Request does not have",
    "_events": "names a field '_events' that Request does not have",
    "_e0": "names a field '_e0' that Request does not have",
    "request.path": "names a field 'request' that Request does not have",
    "main.path": "names a field 'main' that Request does not have",
    "geo.lon": "does not fit its event",
    "tags.name": "does not fit its event",
    "list_filter(tags, x -> x = path)[1]": "names a field 'x' that Request does not have",
    "list_transform(tags, lambda t: t)[1] || t": "names a field 't' that Request does not have",
    "foo(path)": "there is no function foo",
    "lowr(path)": "there is no function lowr; the nearest are lower",
    "main.lower(path)": "write lower(...) without a prefix of its name",
    "system.main.now()": "write now(...) without a prefix of its name",
    "pg_catalog.current_user()": "without a prefix of its name",
    "path.lower()": "write lower(...) without a prefix of its name",
    "CAST(path AS nonsense)": "does not fit its event",
    "date_trunc('day', at)": 'these are reserved words of SQL; quote them: "at"',
    "at": 'quote them: "at"',
    # types
    "path + 1": "does not fit its event",
    "path < 500": "does not fit its event",
    "upper(status, 1)": "does not fit its event",
    "NULL": 'is of type "NULL"; supported are BOOLEAN,',
    "tags": "is of type VARCHAR[]",
    "[status]": "is of type BIGINT[]",
    "geo": "is of type STRUCT",
    "{'a': 1}": "is of type STRUCT",
    "map([1], [2])": "is of type MAP",
    "INTERVAL 1 DAY": "is of type INTERVAL",
    '"at" - "at"': "is of type INTERVAL",
    '"at"::TIMESTAMP': "say which zone it is in",
    '"at"::TIMESTAMP_NS': "say which zone it is in",
    "\"at\" AT TIME ZONE 'Europe/Oslo'": "say which zone it is in",
    "make_timestamp(0)": "say which zone it is in",
    "'10:00'::TIME": "is of type TIME",
    "'10:00+00'::TIMETZ": "is of type TIME WITH TIME ZONE",
    "'101'::BIT": "is of type BIT",
    "10000000000000000000000000000000000000000": "is of type BIGNUM",
    "status::VARIANT": "is of type VARIANT",
    "array_value(1, 2)": "is of type INTEGER[2]",
    "union_value(a := 1)": "is of type UNION",
    "generate_series(1, 3)": "is of type BIGINT[]",
    # collation
    "path COLLATE NOCASE": "COLLATE is refused",
    "lower(path COLLATE NOCASE)": "COLLATE is refused",
    "path = 'a' COLLATE de": "COLLATE is refused",
}


@pytest.mark.parametrize("text", REFUSED)
def test_everything_else_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(DefinitionError) as refusal:
        bound(text)
    assert REFUSED[text] in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("value", [None, 5, ["path"], b"path"])
def test_what_is_not_text_is_refused(value: object) -> None:
    with pytest.raises((DefinitionError, TypeError)):
        bind_expression(value, event_schema(Request), "Request")


def test_a_column_that_sql_lacks_is_refused_in_words() -> None:
    with pytest.raises(DefinitionError, match=r"does not fit its event: .*Decimal"):
        bind_expression("n > 1", pa.schema([("n", pa.decimal256(50, 2))]), "Request")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("status<500", "status < 500 -- not errors"),
        ("STATUS < 500", "(status) < 500"),
        ("Upper(path)", "upper(path)"),
        ("CASE WHEN mixed THEN 1 END", "case when Mixed then 1 end"),
        ("CAST(path AS INT)", "path::INTEGER"),
    ],
)
def test_texts_of_one_meaning_have_one_canonical_form(one: str, other: str) -> None:
    assert bound(one).canonical == bound(other).canonical


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("status < 500", "status <= 500"),
        ("path", "user"),
        ("'a'", "'A'"),
        ("a - (b - c)", "a - b - c"),
        ("1", "1.0"),
        ("1", "'1'"),
    ],
)
def test_texts_of_two_meanings_have_two(one: str, other: str) -> None:
    assert canonical(parse(one)) != canonical(parse(other))


def test_an_expression_knows_its_fields() -> None:
    assert bound("len(list_filter(TAGS, lambda t: t = path)) + status + geo.lat").fields == {"tags", "path", "status", "geo"}
    assert bound("PATH").column == "path"
    assert bound("(path)").column == "path"
    assert bound("geo.lat").column is None
