"""Event types evolve by rule: what the rules allow decodes every old record, all else is named."""

import enum
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.schema_evolution import breaks, differences, refuse_breaks
from tandem.views.project.project import Project, load_files
from tandem.views.source.event import Event, Scale
from tandem.views.source.formats.avro import avro
from tandem.views.source.formats.csv import csv
from tandem.views.source.formats.json import JSON
from tandem.views.source.schema_version import Version
from tandem.views.source.source import Source
from tests.views.logged import decoded

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Small(enum.Enum):
    A = "a"


class Large(enum.Enum):
    A = "a"
    B = "b"


class Open(enum.Enum):
    A = "a"

    @classmethod
    def _missing_(cls, value: object) -> "Open":
        return cls.A


class Inner(msgspec.Struct):
    n: int


class Wider(msgspec.Struct):
    n: float | None
    more: str = ""


class Narrower(msgspec.Struct):
    n: int
    more: str


class Closed(msgspec.Struct, forbid_unknown_fields=True):
    n: int


class Listed(msgspec.Struct, array_like=True):
    n: int


class ListedMore(msgspec.Struct, array_like=True):
    n: float
    more: str = ""


class ListedOther(msgspec.Struct, array_like=True):
    more: str = ""
    n: int = 0


INTS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(max_size=4)
SHORT = Annotated[str, msgspec.Meta(min_length=2, max_length=3)]


@dataclass(frozen=True)
class Widening:
    """A field's type before and after, and all that JSON has of it before."""

    old: Any
    new: Any
    values: st.SearchStrategy[Any]


WIDENINGS = [
    Widening(int, float, INTS),
    Widening(int, int | None, INTS),
    Widening(Annotated[Decimal, Scale(2)], Annotated[Decimal, Scale(2)] | None, st.decimals(-(10**36) + 1, 10**36 - 1, places=2)),
    Widening(Small, Large, st.just("a")),
    Widening(Small, Literal["a", "b"], st.just("a")),
    Widening(Literal["a", "b"], str, st.sampled_from("ab")),
    Widening(Literal[1, 2], Literal[1, 2, 3] | None, st.sampled_from([1, 2])),
    Widening(Literal[1, 2], int, st.sampled_from([1, 2])),
    Widening(Literal[1, 2], float, st.sampled_from([1, 2])),
    Widening(Small, Open, st.just("a")),
    Widening(Open, Open, TEXTS),
    Widening(Inner, Wider, st.builds(dict, n=INTS)),
    Widening(Listed, ListedMore, st.lists(INTS, min_size=1, max_size=1)),
    Widening(list[int], list[float | None], st.lists(INTS, max_size=3)),
    Widening(list[Inner], list[Wider] | None, st.lists(st.builds(dict, n=INTS), max_size=3)),
    Widening(Closed, Inner, st.builds(dict, n=INTS)),
    Widening(Annotated[int, msgspec.Meta(gt=2)], Annotated[int, msgspec.Meta(ge=2)], st.integers(3, 2**63 - 1)),
    Widening(Annotated[int, msgspec.Meta(ge=3)], Annotated[float, msgspec.Meta(gt=2)], st.integers(3, 2**63 - 1)),
    Widening(Annotated[int, msgspec.Meta(lt=2, ge=0)], Annotated[int, msgspec.Meta(le=2)], st.integers(0, 1)),
    Widening(SHORT, Annotated[str, msgspec.Meta(min_length=1)], st.text("ab", min_size=2, max_size=3)),
]  # fmt: skip


def event(annotation: Any, *more: tuple[Any, ...], **required: Any) -> Any:
    fields = [("at", datetime), ("x", annotation), *more, *required.items()]
    return msgspec.defstruct("Order", fields, bases=(Event,), frozen=True)


def written(value: Any) -> bytes:
    # Numbers as they are, decimals as strings: an encoder that knows nothing of event types.
    return msgspec.json.encode({"at": NOON, "x": value})


@pytest.mark.parametrize("widening", WIDENINGS, ids=lambda one: f"{one.old} to {one.new}")
def test_what_is_called_wider_reads_every_old_record(widening: Widening) -> None:
    old, new = event(widening.old), event(widening.new)
    assert differences(old, new) == []
    sources = [Source(topic="t", event=one, event_time="at") for one in (old, new)]

    @given(st.lists(widening.values, max_size=3))
    def reads(values: list[Any]) -> None:
        for source in sources:
            assert decoded(source, *map(written, values)).events.num_rows == len(values)

    reads()


@pytest.mark.parametrize(
    "default", [(int, 1), (str | None, None), (list[int], msgspec.field(default_factory=list)), (Literal["a", "b"], "b")]
)
def test_an_added_field_with_a_default_reads_every_old_record(default: tuple[Any, Any]) -> None:
    annotation, value = default
    new = event(int, ("y", annotation, value))
    assert differences(event(int), new) == []
    assert decoded(Source(topic="t", event=new, event_time="at"), written(1)).events.num_rows == 1
    # Read as text, a default stands where there is no column.
    assert differences(new, event(int)) == ["Order.y is removed"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (int, str, "Order.x is str and was int"),
        (float, int, "Order.x is int and was float"),
        (str, bytes, "Order.x is bytes and was str"),
        (int, bool, "Order.x is bool and was int"),
        (int, Annotated[Decimal, Scale(2)], "Order.x is Decimal with Scale(2) and was int"),
        (
            Annotated[Decimal, Scale(2)],
            Annotated[Decimal, Scale(4)],
            "Order.x is Decimal with Scale(4) and was Decimal with Scale(2)",
        ),
        (int | None, int, "Order.x may no longer be null"),
        (list[int | None], list[int], "Order.x[] may no longer be null"),
        (list[int], list[str], "Order.x[] is str and was int"),
        (int, list[int], "Order.x is list[int] and was int"),
        (Inner, int, "Order.x is int and was Inner"),
        (Literal["a", "b"], Small, "Order.x is one of 'a' and was one of 'a', 'b'"),
        (str, Literal["a"], "Order.x is one of 'a' and was str"),
        (Literal["1"], int, "Order.x is int and was one of '1'"),
        (Open, Large, "Order.x is one of 'a', 'b' and was one of 'a'"),
        (Open, str, "Order.x is str and was one of 'a'"),
        (Inner, Narrower, "Order.x.more is new and has no default, and published records lack it; give it one, such as = None"),
        (Wider, Inner, "Order.x may no longer be null|Order.x.n may no longer be null|Order.x.more is removed"),
        (Inner, Closed, "Order.x forbids unknown fields, which it ignored"),
        (Inner, Listed, "Order.x is an array and was not"),
        (Listed, ListedOther, "Order.x: more stands where n stood"),
        (int, Annotated[int, msgspec.Meta(gt=0)], "Order.x has gt=0, which published records need not keep"),
        (Annotated[int, msgspec.Meta(ge=0)], Annotated[int, msgspec.Meta(gt=0)], "Order.x has gt=0, which"),
        (Annotated[int, msgspec.Meta(le=2)], Annotated[int, msgspec.Meta(lt=2)], "Order.x has lt=2, which"),
        (str, Annotated[str, msgspec.Meta(pattern="a")], "Order.x has pattern='a', which published records need not keep"),
        (Annotated[str, msgspec.Meta(max_length=3)], Annotated[str, msgspec.Meta(max_length=2)], "Order.x has max_length=2"),
    ],
)
def test_what_is_not_wider_is_named(old: Any, new: Any, says: str) -> None:
    """One of them at the least in the words given."""
    found = differences(event(old), event(new))
    assert any(sentence.startswith(part) for part in says.split("|") for sentence in found), found


def test_fields_that_are_gone_or_new_are_named() -> None:
    assert differences(event(int, y=int), event(int, z=int | None)) == [
        "Order.y is removed",
        "Order.z is new and has no default, and published records lack it; give it one, such as = None",
    ]
    renamed = msgspec.defstruct("Order", [("at", datetime), ("z", int, msgspec.field(name="x"))], bases=(Event,), frozen=True)
    assert differences(event(int), renamed) == []
    defaulted = msgspec.defstruct("Order", [("at", datetime), ("x", int, 1)], bases=(Event,), frozen=True)
    assert differences(event(int), defaulted) == []
    assert differences(defaulted, event(int)) == ["Order.x no longer has a default, and published records may lack it"]


def upgrade(old: Any) -> Any:
    return old


def read(value: bytes) -> Any:
    return value


def test_a_version_that_reads_the_published_shape_makes_a_break_valid() -> None:
    now = Source(topic="t", event=event(str), event_time="at")
    published = Source(topic="t", event=event(int), event_time="at")
    assert breaks(published, now) == ["Order.x is str and was int"]
    assert breaks(published, replace(now, versions=(Version(event(int), upgrade),))) == []
    assert breaks(published, replace(now, versions=(Version(event(float), upgrade),))) == []
    assert breaks(published, replace(now, versions=(Version(event(bytes), upgrade),))) == ["Order.x is str and was int"]
    # A version that was published has records too.
    older = replace(published, versions=(Version(event(bytes), upgrade),))
    gone = "version Order of the published source is no longer among its versions"
    assert breaks(older, published) == [gone]
    assert breaks(older, replace(now, versions=(Version(event(int), upgrade),))) == [gone]
    assert breaks(older, replace(now, versions=(Version(event(int), upgrade), Version(event(bytes), upgrade)))) == []


def with_decoder(decoder: Any) -> Source:
    return Source(topic="t", event=event(int), event_time="at", decoder=decoder)


AVRO = {"type": "record", "name": "o", "fields": [{"name": "at", "type": "string"}, {"name": "x", "type": "int"}]}


def test_a_decoder_that_reads_something_else_is_a_break() -> None:
    rows = csv(columns=("at", "x"))
    assert breaks(with_decoder(JSON), with_decoder(rows)) == ["decoder json became csv"]
    assert breaks(with_decoder(rows), with_decoder(csv(columns=("x", "at")))) == [
        "decoder csv has other parameters than what is published"
    ]
    assert breaks(with_decoder(rows), with_decoder(csv(columns=("at", "x")))) == []
    assert breaks(with_decoder(rows), with_decoder(read)) == []
    assert breaks(with_decoder(read), with_decoder(JSON)) == ["decoder read became json"]
    assert breaks(with_decoder(avro(schemas={1: AVRO})), with_decoder(avro(schemas={1: AVRO, 2: AVRO}))) == []
    assert breaks(with_decoder(avro(schemas={1: AVRO, 2: AVRO})), with_decoder(avro(schemas={1: AVRO}))) != []
    kept = replace(with_decoder(rows), versions=(Version(event(int), upgrade),))
    assert breaks(with_decoder(JSON), kept) == []


def test_an_identity_that_all_old_events_would_share_is_a_break() -> None:
    new = event(int, ("line", int, 0))
    published = Source(topic="t", event=event(int), event_time="at")
    assert breaks(published, Source(topic="t", event=new, event_time="at", identity=("x",))) == []
    assert breaks(published, Source(topic="t", event=new, event_time="at", identity=("x", "line"))) == [
        "Order.line is new and has a default, which would be the identity of every published record"
    ]


def project(fields: str, source: str = "") -> Project:
    text = (
        "from datetime import datetime\nfrom tandem import Event, Source, Version\n\nclass Order(Event):\n    at: datetime\n"
        f"    {fields}\n\nclass Was(Event):\n    at: datetime\n    n: int\n\n"
        "def up(old):\n    return Order(at=old.at, n=str(old.n))\n\n"
        f"orders = Source(topic='t', event=Order, event_time='at'{source})\nSOURCES = (orders,)\nVIEWS = ()\n"
    )
    return load_files({"definitions.py": text.encode()})


def test_a_refusal_names_file_source_field_and_the_way_out() -> None:
    published = project("n: int")
    with pytest.raises(
        DefinitionError,
        match=r"definitions\.py:4: source 'orders': Order\.n is str and was int: allowed are .*versions=\(Version\(OldEvent",
    ):
        refuse_breaks(published, project("n: str"))
    refuse_breaks(published, project("n: str", ", versions=(Version(Was, up),)"))
    refuse_breaks(published, project("n: float"))
    refuse_breaks(published, project("n: int\n    m: int = 0"))
    refuse_breaks(project("n: str", ", name='others'"), published)
