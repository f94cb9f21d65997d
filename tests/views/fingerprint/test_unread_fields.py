"""An optional field that no view reads can only reject records; where it rejects none, the events are the same."""

import enum
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, cast
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.decode import DecodedRecords
from tandem.views.fingerprint.unread_fields import unread_fields
from tandem.views.project.project import load_files
from tandem.views.source.decoder import Decoder
from tandem.views.source.event import Event, Scale
from tandem.views.source.formats.csv import csv
from tandem.views.source.formats.json import JSON
from tandem.views.source.log_order import further
from tandem.views.source.source import Source
from tandem.views.view import View
from tests.views.logged import decoded


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


class Part(msgspec.Struct):
    n: int
    x: str = ""


TYPES: tuple[Any, ...] = (
    bool, int, float, str, bytes, date, datetime, UUID, Level, Literal[1, 2], Annotated[Decimal, Scale(2)],
    Annotated[int, msgspec.Meta(ge=0)], list[int], list[Annotated[Decimal, Scale(1)]], list[Part], Part,
)  # fmt: skip
SCALARS = TYPES[:12]
OLD = (
    ("id", str),
    ("at", datetime),
    ("cents", int),
    ("price", Annotated[Decimal, Scale(2)] | None, None),
    ("part", Part | None, None),
)


def event(*fields: Any) -> type[Event]:
    made: Any = msgspec.defstruct("Sale", fields, bases=(Event,), kw_only=True, module=__name__)
    return cast("type[Event]", made)


PLAIN, FLAT = event(*OLD), event(*OLD[:4])
WIDER = [event(*OLD, ("x", kind | None, None)) for kind in TYPES]
FLAT_WIDER = [event(("x", kind | None, None), *OLD[:4]) for kind in SCALARS]

tokens = st.sampled_from(
    [
        "null", "true", "1", "2", "-1", "1.0", "1.25", "0.005", "1e400", "0e999999999999", "-0", "1" * 40, "1" * 5000, "01",
        "NaN",
        '""', '"low"', '"mid"', '"7.5"', '"1e9"', '"2026-03-01"', '"2026-03-01T00:00:00Z"', '"2026-03-01T00:00:00"', '"\\ud800"',
        '"a\\u0000b"', '"0001-01-01T00:00:00+14:00"', '"eA=="', '"6f1f9a2e-0000-4000-8000-000000000000"', "[]", "[1]", "[1,]",
        "[0.5]",
        '["a"]', '{"n":1}', '{"n":1,"n":2}', '{"n":1,"x":2}', '{"n":1,"x":"a","y":{"x":1,"x":2}}', '[{"n":1}]', "{", "\x01",
        "[" * 127 + "]" * 127, "[" * 200 + "]" * 200,
    ]
)  # fmt: skip
keys = st.sampled_from(["x", "x", "\\u0078", "y", "cents", "price", "part", "id"])


@st.composite
def objects(draw: st.DrawFn) -> str:
    """Objects with the fields of the old event, mostly right, and others, some of them twice."""
    pairs = [
        ("id", '"a"'),
        ("at", '"2026-03-01T00:00:00Z"'),
        ("cents", "1"),
        *draw(st.lists(st.tuples(keys, tokens), max_size=3)),
    ]
    return "{" + ",".join(f'"{key}":{token}' for key, token in pairs) + "}"


lists = st.lists(objects(), max_size=3).map(lambda some: f"[{','.join(some)}]")
cells = st.sampled_from(["", "a", "1", "-1", "1.25", "low", "2026-03-01T00:00:00Z", "2026-03-01", '"a""b"', '"', "true", "NaN"])


@st.composite
def rows(draw: st.DrawFn) -> str:
    """A header and rows, of one of which a text may be missing."""
    columns = draw(st.lists(st.sampled_from(["x", "x", "y", "price"]), max_size=3))
    head = ["id", "at", "cents", *columns]
    body = [["a", "2026-03-01T00:00:00Z", "1", *draw(st.lists(cells, min_size=len(columns), max_size=len(columns)))]]
    body += [row[: draw(st.integers(3, len(row)))] for row in body * draw(st.integers(0, 1))]
    return "\n".join(map(",".join, [head, *body]))


def source(kind: type[Event], decoder: Decoder = JSON, many: int | None = None) -> Source:
    return Source(
        topic="sales", event=kind, event_time="at", identity=("id",), decoder=decoder, max_events_per_record=many, name="sales"
    )


def events_of(found: DecodedRecords, columns: list[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = found.events.select(columns).to_pylist()
    return rows


def numbers(found: DecodedRecords) -> tuple[int, int, int]:
    return found.events.num_rows, found.events.num_rows - further(found.events), found.rejects.num_rows


def assert_only_rejects(before: Source, after: Source, values: list[str]) -> None:
    """Adding the field makes no event of a reject; where as many are events, they are the same ones."""
    old, new = (decoded(one, *(value.encode("utf-8", "replace") for value in values)) for one in (before, after))
    columns = old.events.column_names
    was, now = events_of(old, columns), events_of(new, columns)
    assert [row for row in was if row in now] == now
    rejected = {(row["partition"], row["offset"]) for row in old.rejects.to_pylist()}
    assert rejected <= {(row["partition"], row["offset"]) for row in new.rejects.to_pylist()}
    if numbers(old) == numbers(new):
        assert was == now


@given(values=st.lists(objects(), max_size=4), after=st.sampled_from(WIDER))
def test_a_field_more_makes_no_event_of_a_reject(values: list[str], after: type[Event]) -> None:
    assert_only_rejects(source(PLAIN), source(after), values)


@given(values=st.lists(lists, max_size=3), after=st.sampled_from(WIDER))
def test_nor_of_a_list(values: list[str], after: type[Event]) -> None:
    assert_only_rejects(source(PLAIN, many=2), source(after, many=2), values)


@given(
    values=st.lists(rows(), max_size=4), after=st.sampled_from(FLAT_WIDER), header=st.booleans(), many=st.sampled_from([None, 3])
)
def test_nor_of_csv(values: list[str], after: type[Event], *, header: bool, many: int | None) -> None:
    decoder = csv(header=True) if header else csv(columns=("id", "at", "cents", "x"))
    texts = values if header else [value.partition("\n")[2] for value in values]
    assert_only_rejects(source(FLAT, decoder, many), source(after, decoder, many), texts)


TEXT = """
from datetime import datetime
import msgspec
from tandem import Event, Source, Version, View, avro, count, csv, total

class Sale(Event):
    id: str
    at: datetime
    cents: int

def whole(events):
    return events

def read(value: bytes) -> Sale:
    return msgspec.json.decode(value, type=Sale)

sales = Source(topic="sales", event=Sale, event_time="at", identity=("id",))
per_id = View(source=sales, keys={"id": "id"}, where="cents > 0", measures={"cents": total("cents")})
SOURCES = (sales,)
VIEWS = (per_id,)
"""
FIELD = ("    cents: int\n", "    cents: int\n    note: str | None = None\n")
CODE = "\n    def __post_init__(self):\n        msgspec.structs.asdict(self)\n"
VERSIONED = """class Old(Event):
    id: str
    at: datetime
    amount: float

def upgrade(old: Old) -> Sale:
    return Sale(id=old.id, at=old.at, cents=0)

sales = Source(topic="sales", versions=(Version(Old, upgrade),), """
AVRO = """{"type": "record", "name": "Sale", "fields": [{"name": "id", "type": "string"}, {"name": "cents", "type": "long"},
{"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}]}"""

Edit = tuple[str, str]


def unread(*edits: Edit, before: Sequence[Edit] = ()) -> tuple[str, ...]:
    """Of the project's view: `before` edits what is published and what is wanted, `edits` what is wanted."""

    def view(edits: Sequence[Edit]) -> View:
        text = TEXT
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        return load_files({"tandem.toml": b"", "definitions.py": text.encode()}).views["per_id"]

    return unread_fields(view(before), view([*before, *edits]))


@pytest.mark.parametrize(
    "edits",
    [
        [],
        [("class Sale(Event):", 'class Sale(Event):\n    """One sale."""\n')],
        [('"sales", event', '"sales", lateness=timedelta(0), event'), ("import datetime", "import datetime, timedelta")],
        [("cents > 0", "(cents  >  0)")],
    ],
)
def test_a_field_alone_is_unread(edits: list[Edit]) -> None:
    assert unread(*edits, FIELD) == ("note",)
    assert unread(*edits) == ()


@pytest.mark.parametrize(
    "before",
    [
        ('("id",))', '("id",), decoder=csv(columns=("id", "at", "cents")))'),
        ('("id",))', '("id",), decoder=csv(header=True))'),
        ('("id",))', '("id",), max_events_per_record=3, metadata=("_key",))'),
        ('("id",))', '("_idempotency_key",))'),
    ],
)
def test_sources_of_values_whose_fields_are_read_by_themselves(before: Edit) -> None:
    assert unread(FIELD, before=[before]) == ("note",)


@pytest.mark.parametrize(
    "edits",
    [
        pytest.param([("cents: int\n", "cents: int\n    note: str | None\n")], id="a required field"),
        pytest.param([(FIELD[0], FIELD[0] + "    note: str = msgspec.field(default_factory=lambda: '')\n")], id="a factory"),
        pytest.param([FIELD, ("cents: int\n", "cents: float\n")], id="another type besides"),
        pytest.param([FIELD, ("cents > 0", "cents > 1")], id="another filter besides"),
        pytest.param([FIELD, ("cents > 0", "cents > 0 and note is null")], id="a filter that reads it"),
        pytest.param([FIELD, ('"id": "id"', '"id": "id", "note": "note"')], id="a key that reads it"),
        pytest.param([FIELD, ("total(", "count(), 'notes': total(")], id="a measure besides"),
        pytest.param([FIELD, ('("id",)', '("id", "cents")')], id="another identity besides"),
        pytest.param([FIELD, ('event_time="at"', 'event_time="at", max_events_per_record=2')], id="lists besides"),
        pytest.param([FIELD, ('("id",))', '("id",), metadata=("_key",))')], id="metadata besides"),
        pytest.param([FIELD, ("(Event)", "(Event, forbid_unknown_fields=True)")], id="unknown fields forbidden besides"),
        pytest.param([FIELD, ('("id",))', '("id",), decoder=csv(header=True))')], id="another decoder besides"),
        pytest.param([FIELD, ('("id",))', '("id",), prepare=whole)')], id="prepare besides"),
        pytest.param([(FIELD[0], FIELD[1] + CODE)], id="code besides"),
        pytest.param([FIELD, ('sales = Source(topic="sales", ', VERSIONED)], id="a version besides"),
    ],
)  # fmt: skip
def test_with_any_other_change_the_view_is_computed(edits: list[Edit]) -> None:
    assert unread(*edits) == ()


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(('("id",))', '("id",), prepare=whole)'), id="prepare sees whole events"),
        pytest.param(('("id",))', '("id",), decoder=read)'), id="a function makes the events"),
        pytest.param(('("id",))', f'("id",), decoder=avro(schema={AVRO!r}))'), id="a format that is not proven"),
        pytest.param(("(Event)", "(Event, forbid_unknown_fields=True)"), id="rejects with the field become events"),
        pytest.param(("(Event)", "(Event, array_like=True)"), id="fields have places"),
        pytest.param((FIELD[0], FIELD[0] + CODE), id="code sees whole events"),
        pytest.param(('sales = Source(topic="sales", ', VERSIONED), id="a version takes what the field rejects"),
    ],
)  # fmt: skip
def test_where_something_could_see_the_field_the_view_is_computed(before: Edit) -> None:
    assert unread(FIELD, before=[before]) == ()


def test_a_field_that_is_gone_has_to_be_decoded_otherwise() -> None:
    assert unread((FIELD[1], FIELD[0]), before=[FIELD]) == ()
