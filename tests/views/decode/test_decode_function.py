"""A function of the project as decoder: whatever it does, each record has one outcome."""

import struct
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest

from tandem.views.decode import decode
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.project.project import Project, load_files
from tandem.views.source.event import Event
from tandem.views.source.source import Source, record_columns
from tests.views.logged import decoded, reason, records

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Ping(Event):
    at: datetime
    n: int
    name: str | None = None

    def __post_init__(self) -> None:
        if self.n == 13:
            raise ValueError("unlucky")
        if self.n == 14:
            msgspec.structs.force_setattr(self, "n", self.n + 1)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def read(value: bytes) -> Any:
    """Eight bytes of seconds, eight of a number; numbers that the test knows misbehave."""
    second, number = struct.unpack(">qq", value)
    odd: dict[int, Any] = {2: None, 3: {"n": 3}, 4: Ping(at=NOON, n=cast("int", "4")), 5: Ping(at=NOON, n=cast("int", 5.0))}
    odd |= {6: Ping(at=cast("datetime", "noon"), n=6), 7: Ping(at=datetime(2026, 11, 1), n=7)}  # noqa: DTZ001  a fault
    odd |= {8: Ping(at=NOON, n=2**63), 9: Ping}
    if number == 1:
        raise KeyError("one\udcff")
    if number == 10:
        raise Mute
    return odd.get(number, Ping(at=datetime.fromtimestamp(second, UTC), n=number))


PINGS = Source(topic="t", event=Ping, event_time="at", decoder=read)


def ping(number: int) -> bytes:
    return struct.pack(">qq", int(NOON.timestamp()), number)


@pytest.mark.parametrize(
    ("value", "expected", "says"),
    [
        (ping(1), "refused", "KeyError: 'one"),
        (ping(13), "refused", "ValueError: unlucky"),
        (ping(10), "refused", "Mute"),
        (b"short", "refused", "unpack requires a buffer of 16 bytes"),
        (ping(2), "wrong_type", "read returned a NoneType, not a Ping"),
        (ping(3), "wrong_type", "read returned a dict, not a Ping"),
        (ping(9), "wrong_type", "read returned a StructMeta, not a Ping"),
        (ping(4), "wrong_type", "$.n"),
        (ping(5), "wrong_type", "$.n"),
        (ping(6), "wrong_type", "$.at"),
        (ping(7), "no_zone", "at"),
        (ping(8), "out_of_range", "n does not fit 64 bits"),
        (b"", "empty", "no bytes"),
    ],
)
def test_what_a_function_does_wrong_is_a_reject(value: bytes, expected: str, says: str) -> None:
    (row,) = decoded(PINGS, value).rejects.to_pylist()
    assert (row["reason"], says in row["detail"]) == (expected, True), row


def test_what_a_function_returns_is_the_event_and_its_neighbours_are_untouched() -> None:
    found = decoded(PINGS, ping(20), ping(1), ping(14), ping(2), ping(21))
    assert found.events["n"].to_pylist() == [20, 15, 21]
    assert found.events["at"].to_pylist() == [NOON] * 3
    assert found.rejects["offset"].to_pylist() == [1, 3]
    assert reason(PINGS, ping(0)) == "event"


def located(value: bytes, headers: Any, offset: int, key: bytes | None, timestamp: datetime) -> Any:
    """What stands beside the value is the event."""
    assert (timestamp - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() == offset
    return Ping(at=NOON, n=offset, name=f"{value!r} {key!r} {headers!r}")


def test_a_function_takes_by_name_what_it_needs_of_a_record() -> None:
    source = Source(topic="t", event=Ping, event_time="at", decoder=located)
    assert set(record_columns(source)) == {
        "topic_id",
        "partition",
        "offset",
        "timestamp",
        "timestamp_type",
        "value",
        "key",
        "headers",
    }
    found = decode(source, records([b"a", None, b"c"], first=70))
    assert found.events["n"].to_pylist() == [70, 72]
    assert found.events["name"].to_pylist() == ["b'a' None []", "b'c' None []"]
    assert found.rejects["reason"].to_pylist() == ["empty"]


def nothing() -> Any:
    return None


def too_much(value: bytes, kee: bytes) -> Any:
    return value + kee


@pytest.mark.parametrize(
    ("function", "says"), [(nothing, "nothing takes nothing; a decoder takes"), (too_much, "takes 'kee'; .*: key, ")]
)
def test_a_function_that_asks_for_what_no_record_has_is_refused(function: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        Source(topic="t", event=Ping, event_time="at", decoder=function)


def outer() -> Any:
    def inner(value: bytes) -> Any:
        return value

    return inner


@pytest.mark.parametrize("function", [lambda value: value, outer()])
def test_only_a_function_with_a_name_in_a_module_is_a_decoder(function: Any) -> None:
    with pytest.raises(DefinitionError, match="must be a module-level, named function"):
        Source(topic="t", event=Ping, event_time="at", decoder=function)


DEFINITIONS = """
from datetime import datetime

import wire
from tandem import Event, Source, csv, json

class Ping(Event):
    at: datetime
    n: int

pings = Source(topic="t", event=Ping, event_time="at", decoder=DECODER)
SOURCES = (pings,)
VIEWS = ()
"""
WIRE = '''
FACTOR = 2
UNUSED = 1

def number(value):
    return int(value) * FACTOR

def read(value):
    """Read it."""
    return value, number(value)
'''


def test_annotations_may_be_left_for_later() -> None:
    """They are resolved while the project's modules are there, and no later."""
    texts = "from __future__ import annotations\n" + DEFINITIONS.replace("DECODER", "read")
    own = "def read(value):\n    return Ping(at=datetime.fromisoformat(value.decode()), n=1)\n"
    source = load_files({"definitions.py": texts.replace("pings =", own + "pings =").encode(), "wire.py": b""}).sources["pings"]
    assert reason(source, NOON.isoformat().encode()) == "event"


def project(wire: str = WIRE, decoder: str = "wire.read") -> Project:
    return load_files({"definitions.py": DEFINITIONS.replace("DECODER", decoder).encode(), "wire.py": wire.encode()})


def test_the_parameters_of_a_decoder_are_part_of_the_fingerprint() -> None:
    decoders = (
        "json()",
        "wire.read",
        "csv(columns=('at', 'n'))",
        "csv(columns=('n', 'at'))",
        "csv(columns=('at', 'n'), delimiter=';')",
    )
    found = [decoder_fingerprint(project(decoder=decoder).sources["pings"]) for decoder in decoders]
    assert len(set(found)) == len(decoders)
    assert found == [decoder_fingerprint(project(decoder=decoder).sources["pings"]) for decoder in decoders]


OWN = """\
from dataclasses import dataclass
from datetime import UTC, datetime

from tandem import Event

FACTOR = 2


@dataclass(frozen=True)
class Own:
    sign: str

    def parser(self, event: type[Event]):
        return lambda value: event(at=datetime(2026, 11, 1, tzinfo=UTC), n=len(value) * FACTOR)

    def listed(self, event: type[Event]):
        raise NotImplementedError
"""


def test_the_code_of_a_decoder_class_of_the_project_is_part_of_the_fingerprint() -> None:
    def of(wire: str, sign: str = "+") -> str:
        return decoder_fingerprint(project(wire, f"wire.Own({sign!r})").sources["pings"])

    before = of(OWN)
    assert before == of(OWN.replace("len(value) * FACTOR", "(len(value) * FACTOR)"))
    assert (
        len({before, of(OWN, "-"), of(OWN.replace("FACTOR = 2", "FACTOR = 3")), of(OWN.replace("len(value)", "value[0]"))}) == 4
    )


class Odd(BaseException):
    """What no `except Exception` catches."""


def leaves(value: bytes) -> Any:
    faults: dict[bytes, type[BaseException]] = {b"exit": SystemExit, b"odd": Odd, b"stop": GeneratorExit}
    faults |= {b"user": KeyboardInterrupt, b"memory": MemoryError}
    if value in faults:
        raise faults[value]("away")
    return Ping(at=NOON, n=1)


def leaves_one(value: bytes) -> Any:
    return [leaves(part) for part in value.split()]


LEAVES = Source(topic="t", event=Ping, event_time="at", decoder=leaves)


@pytest.mark.parametrize("source", [LEAVES, replace(LEAVES, decoder=leaves_one, max_events_per_record=2)])
def test_what_ends_a_process_is_one_records_fault(source: Source) -> None:
    found = decoded(source, b"exit", b"fine", b"odd", b"stop")
    assert found.events["_offset"].to_pylist() == [1]
    details = ["SystemExit: away", "Odd: away", "GeneratorExit: away"]
    assert found.rejects.select(["offset", "reason", "detail"]).to_pylist() == [
        {"offset": offset, "reason": "refused", "detail": detail} for offset, detail in zip((0, 2, 3), details, strict=True)
    ]
    for value, error in ((b"user", KeyboardInterrupt), (b"memory", MemoryError)):
        with pytest.raises(error):
            decoded(source, value)


class Leaving(Event):
    at: datetime
    n: int

    def __post_init__(self) -> None:
        if self.n == 2:
            raise SystemExit("a type leaves")


def test_what_an_event_of_a_list_raises_is_told_with_its_place() -> None:
    values = [b'[{"at": "2026-11-01T00:00:00Z", "n": 1}, {"at": "2026-11-01T00:00:00Z", "n": %d}]' % n for n in (1, 2)]
    found = decoded(Source(topic="t", event=Leaving, event_time="at", max_events_per_record=2), *values)
    assert found.events["_index"].to_pylist() == [0, 1, 0]
    (row,) = found.rejects.to_pylist()
    assert (row["offset"], row["index"], row["reason"], row["detail"]) == (1, 1, "refused", "SystemExit: a type leaves")
