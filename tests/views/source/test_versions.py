"""Records of earlier versions of an event type are events: the oracle reads each record by hand."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.decode import decode
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.project.project import Project, load_files
from tandem.views.source.event import Event, Scale
from tandem.views.source.formats.csv import csv
from tandem.views.source.schema_version import Version
from tandem.views.source.source import Source, record_columns
from tests.views.logged import decoded, records

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Order(Event):
    id: str
    at: datetime
    amount: Annotated[Decimal, Scale(2)]


class InCents(Event):
    id: str
    at: datetime
    cents: int


class Row(Event):
    number: int
    day: datetime


def from_cents(old: Any) -> Any:
    if old.cents == 13:
        raise ValueError("unlucky")
    return {14: None, 15: Order(id=old.id, at=old.at, amount=7)}.get(  # type: ignore[arg-type]  # 7 is a fault
        old.cents, Order(id=old.id, at=old.at, amount=Decimal(old.cents) / 100)
    )


def from_row(old: Any) -> Any:
    return Order(id=f"row {old.number}", at=old.day, amount=Decimal(0))


ORDERS = Source(
    topic="t",
    event=Order,
    event_time="at",
    versions=(Version(InCents, from_cents), Version(Row, from_row, decoder=csv(columns=("number", "day")))),
)


def order(amount: Any, at: datetime = NOON) -> bytes:
    return json.dumps({"id": "new", "at": at.isoformat(), "amount": amount}).encode()


def in_cents(cents: Any, at: datetime = NOON) -> bytes:
    return json.dumps({"id": "old", "at": at.isoformat(), "cents": cents}).encode()


def row(number: Any, at: datetime = NOON) -> bytes:
    return f"{number},{at.isoformat()}".encode()


FAR = datetime(1990, 1, 1, tzinfo=UTC)
KNOWN: dict[bytes, tuple[str, Decimal] | str] = {
    order("1.25"): ("new", Decimal("1.25")),
    in_cents(250): ("old", Decimal("2.50")),
    row(3): ("row 3", Decimal("0.00")),
    # What both shapes take is of the newest.
    json.dumps({"id": "both", "at": NOON.isoformat(), "amount": "1", "cents": 900}).encode(): ("both", Decimal("1.00")),
    # What no version takes is rejected as the newest rejects it.
    b"{": "json",
    b"": "empty",
    order("1.234"): "out_of_range",
    order("x"): "invalid_value",
    b'{"id": "old", "at": "2026-11-01T12:00:00Z"}': "missing_field",
    in_cents("many"): "missing_field",
    # 2 ** 70 has no place in a column of the version's, so it is none of its events.
    in_cents(2**70): "missing_field",
    # The first that takes a record decides, whatever becomes of it.
    in_cents(13): "upgrade",
    in_cents(14): "wrong_type",
    in_cents(15): "wrong_type",
    # What holds for events holds for upgraded ones.
    in_cents(10**17 * 5): ("old", Decimal(5 * 10**15)),
    in_cents(250, FAR): "implausible_time",
    row(1, FAR): "implausible_time",
    order("1", FAR): "implausible_time",
}


@given(st.lists(st.sampled_from(list(KNOWN)), max_size=12))
def test_every_record_is_what_it_is_alone(values: list[bytes]) -> None:
    """In the order of the records, each with its own outcome, whatever stands beside it."""
    found = decode(ORDERS, records(values, first=5))
    events = [(place, KNOWN[value]) for place, value in enumerate(values, 5) if isinstance(KNOWN[value], tuple)]
    rejects = [(place, KNOWN[value]) for place, value in enumerate(values, 5) if isinstance(KNOWN[value], str)]
    rows = found.events.to_pylist()
    assert [(one["_offset"], (one["id"], one["amount"])) for one in rows] == events
    assert [(one["offset"], one["reason"]) for one in found.rejects.to_pylist()] == rejects


@given(st.lists(st.lists(st.sampled_from([250, 13, 14]), min_size=1, max_size=3), max_size=4))
def test_each_event_of_a_record_of_several_is_upgraded(drawn: list[list[int]]) -> None:
    """The first that cannot be leaves its whole record out, where the source says so."""
    values = [b"[" + b", ".join(map(in_cents, cents)) + b"]" for cents in drawn]
    found = decode(replace(ORDERS, max_events_per_record=3, on_bad_event="record"), records(values, first=5))
    rows = [(one["_offset"], one["_index"], one["amount"]) for one in found.events.to_pylist()]
    taken = [(place, cents) for place, cents in enumerate(drawn, 5) if set(cents) == {250}]
    assert rows == [(place, index, Decimal("2.50")) for place, cents in taken for index in range(len(cents))]
    rejects = [(one["offset"], one["reason"]) for one in found.rejects.to_pylist()]
    first = [(place, cents[0]) for place, all_ in enumerate(drawn, 5) if (cents := [each for each in all_ if each != 250])]
    assert rejects == [(place, "upgrade" if cents == 13 else "wrong_type") for place, cents in first]


def test_a_reject_of_an_upgrade_says_what_was_raised() -> None:
    found = decoded(ORDERS, in_cents(13), in_cents(14)).rejects
    assert found["detail"].to_pylist() == [
        "from_cents: ValueError: unlucky",
        "from_cents returned a NoneType, not a Order",
    ]
    assert found["first_bytes"].to_pylist() == [in_cents(13), in_cents(14)]


def keyed(value: bytes, key: bytes | None) -> Any:
    return Order(id=str(key), at=NOON, amount=Decimal(len(value)))


def identity(old: Any) -> Any:
    return old


def test_a_versions_decoder_has_what_it_asks_for_of_a_record() -> None:
    source = Source(topic="t", event=Order, event_time="at", versions=(Version(Order, identity, decoder=keyed),))
    assert "key" in record_columns(source)
    assert decoded(source, b"abc").events["amount"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("upgrade", "says"),
    [(lambda old: old, "must be a module-level, named function"), (keyed, r"upgrade keyed takes \(value.*it takes one InCents")],
)
def test_an_upgrade_is_a_function_of_one_event(upgrade: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        Version(InCents, upgrade)


def test_versions_are_a_tuple_of_them() -> None:
    with pytest.raises(DefinitionError, match="not a tuple of Versions"):
        Source(topic="t", event=Order, event_time="at", versions=[Version(InCents, from_cents)])  # type: ignore[arg-type]


DEFINITIONS = """
from datetime import datetime

import rules
from tandem import Event, Source, Version, csv

class Ping(Event):
    at: datetime
    n: int

class Was(Event):
    at: datetime
    s: str

pings = Source(topic="t", event=Ping, event_time="at", versions=(Version(Was, rules.upgrade),))
SOURCES = (pings,)
VIEWS = ()
"""
RULES = '''
import definitions

FACTOR = 2

def upgrade(old):
    """Count."""
    return definitions.Ping(at=old.at, n=len(old.s) * FACTOR)
'''


def project(definitions: str = DEFINITIONS, rules: str = RULES) -> Project:
    return load_files({"definitions.py": definitions.encode(), "rules.py": rules.encode()})


def test_an_upgrade_and_the_type_it_takes_are_part_of_the_fingerprint() -> None:
    def of(found: Project) -> str:
        return decoder_fingerprint(found.sources["pings"])

    before = of(project())
    assert of(project(rules=RULES.replace("= 2", "= 3"))) != before
    assert of(project(DEFINITIONS.replace("s: str", "s: str = 'x'"))) != before
    assert of(project(DEFINITIONS.replace("upgrade)", "upgrade, decoder=csv(columns=('at', 's')))"))) != before
    assert of(project(DEFINITIONS.replace("versions=(Version(Was, rules.upgrade),)", ""))) != before
    assert of(project(rules=RULES.replace("Count.", "Counts."))) == before


def test_a_version_that_its_decoder_cannot_read_is_refused_when_it_loads() -> None:
    with pytest.raises(DefinitionError, match=r"source 'pings': Was\.s: there is no column 's'"):
        project(
            DEFINITIONS.replace("upgrade)", "upgrade, decoder=csv(columns=('at',)))"),
        )
