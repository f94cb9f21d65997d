"""Of a topic that several sources share each record is an event or a reject of one, or another's: the oracle tells by hand."""

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.decode import decode
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.project.partition_key import record_keys
from tandem.views.project.project import load_files
from tandem.views.source.event import Event
from tandem.views.source.record_filter import by_field, by_header
from tandem.views.source.source import Source, record_columns
from tests.views.logged import records

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Order(Event):
    at: datetime
    n: int


def source(record_filter: Any) -> Source:
    return Source(topic="t", event=Order, event_time="at", record_filter=record_filter)


def value(kind: Any, n: Any = 1) -> bytes:
    return json.dumps({"at": NOON.isoformat(), "n": n, "the kind": kind}).encode()


MINE, OTHERS = "event", "others"
FIELDS: dict[bytes | None, str] = {
    value("order"): MINE,
    value("refund"): MINE,
    value("order", "x"): "wrong_type",
    value(1): MINE,
    value("visit"): OTHERS,
    value("visit", "x"): OTHERS,  # what is wrong in it is the other source's matter
    value(True): OTHERS,
    value(None): OTHERS,
    value(["order"]): OTHERS,
    json.dumps({"at": NOON.isoformat(), "n": 1}).encode(): "missing_field",
    b'{"the kind": "visit", "the kind": "order"}': "repeated_key",
    b'["order"]': "wrong_type",
    b"{": "json",
    b'"\xff"': "utf8",
    b"": "empty",
    None: "empty",
}


@given(st.lists(st.sampled_from(list(FIELDS)), max_size=12))
def test_by_a_field_every_record_has_one_outcome(values: list[bytes | None]) -> None:
    found = decode(source(by_field("the kind", "order", "refund", 1)), records(values, first=7))
    outcomes = [FIELDS[one] for one in values]
    assert found.events["_offset"].to_pylist() == [place for place, what in enumerate(outcomes, 7) if what == MINE]
    rejects = [(row["offset"], row["reason"]) for row in found.rejects.to_pylist()]
    assert rejects == [(place, what) for place, what in enumerate(outcomes, 7) if what not in (MINE, OTHERS)]
    assert found.others == outcomes.count(OTHERS)


def with_headers(*headers: list[tuple[str, bytes | None]] | None) -> pa.Table:
    table = records([value("x")] * len(headers))
    rows = [None if one is None else [{"key": key, "value": held} for key, held in one] for one in headers]
    place = table.schema.get_field_index("headers")
    return table.set_column(place, "headers", pa.array(rows, table.schema.field("headers").type))


def test_by_a_header_the_last_of_its_name_counts() -> None:
    one = source(by_header("type", "order", "rückgabe"))
    assert "headers" in record_columns(one)
    found = decode(
        one,
        with_headers(
            [("type", b"order")],
            [("type", b"visit"), ("other", b""), ("type", "rückgabe".encode())],
            [("type", b"order"), ("type", b"visit")],
            [("type", None)],
            [("Type", b"order")],
            None,
        ),
    )
    assert found.events["_offset"].to_pylist() == [0, 1]
    assert found.others == 2
    assert [(row["offset"], row["reason"], row["detail"]) for row in found.rejects.to_pylist()] == [
        (4, "kind", "the record has no header 'type'"),
        (5, "kind", "the record has no header 'type'"),
    ]


def told(value: bytes, offset: int) -> Any:
    return {0: True, 1: False, 2: 1}[offset]


def test_a_function_says_true_or_false() -> None:
    found = decode(source(told), records([value(1)] * 4))
    assert (found.events["_offset"].to_pylist(), found.others) == ([0], 1)
    assert [(row["reason"], row["detail"]) for row in found.rejects.to_pylist()] == [
        ("kind", "told returned a int, not a bool"),
        ("kind", "KeyError: 3"),
    ]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: by_header("type"), "takes a name and one or more values, each str"),
        (lambda: by_header("type", 1), "each str"),  # type: ignore[arg-type]
        (lambda: by_field("", "order"), "takes a name"),
        (lambda: by_field("type", 1.5), "each str or int or bool"),  # type: ignore[arg-type]
        (lambda: source("order"), "record_filter 'order' must be by_header"),
        (lambda: source(lambda value: True), "must be a module-level, named function"),
        (lambda: source(decode), "record_filter decode takes 'records'; it takes the value's bytes first"),
    ],
)
def test_what_is_not_a_record_filter_is_refused(make: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        make()


def test_the_key_of_a_record_is_known_before_its_header_is() -> None:
    keyed = Source(topic="t", event=Order, event_time="at", record_filter=by_header("type", "order"), key="n")
    assert record_keys(keyed, [value("x", 5)]) == [b"5"]


DEFINITIONS = """
from datetime import datetime
from tandem import Event, Source, by_field, by_header
FACTOR = 1
class Order(Event):
    at: datetime
def told(value):
    return len(value) > FACTOR
orders = Source(topic="t", event=Order, event_time="at", record_filter=ONLY)
others = Source(topic="t", event=Order, event_time="at")
SOURCES = (orders, others)
VIEWS = ()
"""


def test_the_record_filter_is_part_of_the_fingerprint() -> None:
    """Two sources may name one topic."""

    def of(record_filter: str, definitions: str = DEFINITIONS) -> str:
        return decoder_fingerprint(
            load_files({"definitions.py": definitions.replace("ONLY", record_filter).encode()}).sources["orders"]
        )

    ways = ["None", "told", "by_field('t', 'a')", "by_field('t', 'a', 1)", "by_field('t', 'a', True)", "by_header('t', 'a')"]
    assert len({of(way) for way in ways}) == len(ways)
    assert of("by_field('t', 1, 'a')") == of("by_field('t', 'a', 1)")
    assert of("told", DEFINITIONS.replace("= 1", "= 2")) != of("told")
