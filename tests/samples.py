"""An event type with a field of every kind, and events that look for trouble in each."""

import os
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Annotated, Any, Final

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from tandem.views.source.event import Event, Scale
from tandem.views.source.log_order import with_generation
from tandem.views.source.source import Source, events_schema

WIDE = Context(prec=80)  # Python's own rounds to 28 digits
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Sample(Event):
    """One field of every kind, each but the time optional."""

    at: datetime
    flag: bool | None = None
    i: int | None = None
    f: float | None = None
    d: Annotated[Decimal, Scale(2)] | None = None
    s: str | None = None
    digits: str | None = None
    b: bytes | None = None
    day: date | None = None
    t: datetime | None = None
    m: dict[str, int | None] | None = None


SAMPLES = Source(topic="samples", event=Sample, event_time="at", name="samples")


class Numbered(Sample):
    """A sample that can be told from its copies."""

    id: int = 0


COPIED = Source(topic="copied", event=Numbered, event_time="at", identity=("id",), name="copied")
RETRIED = Source(topic="retried", event=Numbered, event_time="at", identity=("id",), identity_spans="any_time", name="retried")
"""Copies have times of their own."""
GENERATIONS = ("topic", "anew")
"""The topic's, the oldest first."""

_MICROSECONDS_1900, _MICROSECONDS_2100 = -2_208_988_800_000_000, 4_102_444_800_000_000


def _near(*points: int, width: int = 2_000_000) -> st.SearchStrategy[int]:
    return st.sampled_from(points).flatmap(lambda point: st.integers(point - width, point + width))


_near_or_round = _near(0, 60_000_000, -86_400_000_000) | st.integers(-20, 20).map(lambda tenths: tenths * 100_000)
times = (_near_or_round | st.integers(_MICROSECONDS_1900, _MICROSECONDS_2100)).map(lambda us: EPOCH + timedelta(microseconds=us))
integers = st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1) | _near(2**62, -(2**62), width=3)
# Sums of these are exact in doubles, whatever the order, beyond the largest double too.
floats = st.integers(-(2**20), 2**20).map(lambda n: n * 0.25) | st.integers(-3, 3).map(lambda n: n * 2.0**1021) | st.just(-0.0)
decimals = (st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-500, 500) | _near(10**20, -(10**20), width=2)).map(
    lambda unscaled: Decimal(unscaled).scaleb(-2, WIDE)
)
texts = st.sampled_from(["", "a", "a\0", "a\0b", "A", "ä", "a\u0308", "🙂", " ", "'", '"'])
bytestrings = st.sampled_from([b"", b"\0", b"a", b"\xff", b"\xff\xfe", "🙂".encode(), b"a\0b"])

maps = st.dictionaries(st.sampled_from(["a", "b", "", "ä"]), st.none() | integers, max_size=3).map(
    lambda m: dict(sorted(m.items()))
)
"""With their keys in the order that a decoder gives them."""

rows = st.fixed_dictionaries(
    {
        "at": times,
        "flag": st.none() | st.booleans(),
        "i": st.none() | integers,
        "f": st.none() | floats,
        "d": st.none() | decimals,
        "s": st.none() | texts,
        "digits": st.none() | st.sampled_from(["1", "22", "-7", "x", ""]),
        "b": st.none() | bytestrings,
        "day": st.none() | st.dates(),
        "t": st.none() | st.datetimes(timezones=st.just(UTC)),
        "m": st.none() | maps,
    }
)


def placed(events: Sequence[dict[str, Any]], first: int = 0, partition: tuple[str, int] = ("topic", 0)) -> list[dict[str, Any]]:
    """The events with their positions: consecutive offsets of one partition."""
    topic, number = partition
    return [{"_topic_id": topic, "_partition": number, "_offset": offset, **event} for offset, event in enumerate(events, first)]


def table(events: Sequence[dict[str, Any]], first: int = 0, *, source: Source = SAMPLES) -> pa.Table:
    """Events as the kernel folds them, at offsets from `first` on unless they are placed already."""
    return with_generation(pa.Table.from_pylist(placed(events, first), schema=events_schema(source)), GENERATIONS)


LONGER: Final = os.environ.get("TANDEM_HYPOTHESIS") == "all"
"""Whether this run looks longer for counterexamples."""


def cases(quick: int, *, bug: int, longer: int) -> int:
    """How many random cases or schedules run: `bug` where tests/mutants looks for a planted bug, `longer` under `--all`."""
    if os.environ.get("TANDEM_HYPOTHESIS") == "first":
        return bug
    return longer if LONGER else quick


def share(percent: int, *, quick: int | None = None) -> settings:
    """A share of the profile's examples, for tests whose examples are dear; `quick` examples where nobody looks longer."""
    examples = max(5, settings().max_examples * percent // 100)
    return settings(max_examples=examples if LONGER or quick is None else quick)


def just(examples: int, *, quick: int) -> settings:
    """So many examples where somebody looks longer, whatever the profile's are, else `quick`."""
    return settings(max_examples=examples if LONGER else quick)
