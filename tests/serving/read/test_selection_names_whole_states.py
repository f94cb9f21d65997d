"""A selection takes exactly the requested rows, reads texts by the key's type, and explains what would be valid."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.serving.read.selection import BadSelection, last, parse_keys, parse_time, parse_window, select
from tandem.views.measures.count import count
from tandem.views.source.event import Event, Scale
from tandem.views.source.source import Source
from tandem.views.view import View, state_schema
from tandem.views.windows import tumbling


class Reading(Event):
    at: datetime
    day: date
    site: str | None
    level: int
    ratio: float
    price: Annotated[Decimal, Scale(2)]
    good: bool
    raw: bytes
    device: UUID


readings = Source(topic="readings", event=Reading, event_time="at")
FIELDS = ("at", "day", "site", "level", "ratio", "price", "good", "raw", "device")
by_all = View(
    source=readings, keys={f"k_{f}": f'"{f}"' for f in FIELDS}, window=tumbling(hours=1), measures={"n": count()}, name="by_all"
)
by_site = View(source=readings, keys={"site": "site"}, window=tumbling(hours=1), measures={"n": count()}, name="by_site")
ever = View(source=readings, measures={"n": count()}, name="ever")

EIGHT = datetime(2026, 11, 1, 8, tzinfo=UTC)
NOTHING: tuple[None, None] = (None, None)


def states(*rows: tuple[str | None, int]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"site": site, "window_start": EIGHT + timedelta(hours=h), "window_end": EIGHT + timedelta(hours=h + 1), "n": 1}
            for site, h in rows
        ],
        state_schema(by_site),
    )


def test_without_keys_and_bounds_every_row_is_selected() -> None:
    table = states(("OSLO", 0), (None, 1))
    assert select(by_site, {}, NOTHING).expression() is None
    assert select(by_site, {}, NOTHING).filter(table) == table


def test_null_is_an_ordinary_key() -> None:
    table = states(("OSLO", 0), (None, 1), ("", 2))
    assert select(by_site, {"site": None}, NOTHING).filter(table)["window_start"].to_pylist() == [EIGHT + timedelta(hours=1)]
    assert select(by_site, parse_keys(by_site, ["site"]), NOTHING).filter(table).num_rows == 1
    assert select(by_site, parse_keys(by_site, ["site="]), NOTHING).filter(table)["site"].to_pylist() == [""]


def test_bounds_are_half_open_on_the_window_start() -> None:
    table = states(("A", 0), ("A", 1), ("A", 2))
    between = (EIGHT + timedelta(hours=1), EIGHT + timedelta(hours=2))
    assert select(by_site, {}, between).filter(table)["window_start"].to_pylist() == [EIGHT + timedelta(hours=1)]
    assert select(by_site, {}, (None, EIGHT + timedelta(hours=1))).filter(table).num_rows == 1
    assert select(by_site, {}, (EIGHT + timedelta(minutes=1), None)).filter(table).num_rows == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("k_at=2026-11-01T09:00:00+01:00", EIGHT),
        ("k_day=2026-11-01", date(2026, 11, 1)),
        ("k_site=a=b, c", "a=b, c"),
        ("k_level=-9223372036854775808", -(2**63)),
        ("k_ratio=1e3", 1000.0),
        ("k_price=1.5", Decimal("1.50")),
        ("k_good=false", False),
        ("k_raw=AP8=", b"\x00\xff"),
        ("k_device=0f0e0d0c-0b0a-0908-0706-050403020100", "0f0e0d0c-0b0a-0908-0706-050403020100"),
    ],
)
def test_a_text_is_read_as_its_keys_type(text: str, value: Any) -> None:
    (parsed,) = parse_keys(by_all, [text]).values()
    assert parsed.as_py() == value


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("k_at=noon", "a time, such as 2026-11-01T08:00:00Z"),
        ("k_day=2026-13-01", "a date, such as 2026-11-01"),
        ("k_level=1.5", "a 64-bit integer"),
        ("k_level=9223372036854775808", "a 64-bit integer"),
        ("k_level=0x10", "a 64-bit integer"),
        ("k_ratio=fast", "a number"),
        ("k_price=1.505", "a decimal number of at most 2 places"),
        ("k_price=1e-77", "a decimal number of at most 2 places"),
        ("k_price=1e-99999999", "a decimal number of at most 2 places"),
        ("k_price=NaN", "a decimal number of at most 2 places"),
        ("k_good=maybe", "true or false"),
        ("k_raw=xyz", "bytes in base64"),
    ],
)
def test_a_text_that_its_type_cannot_hold_is_refused_with_a_valid_example(text: str, valid: str) -> None:
    name, _, value = text.partition("=")
    with pytest.raises(BadSelection, match=f"'{value}' of key '{name}' of view 'by_all'; expected {valid}"):
        parse_keys(by_all, [text])


@pytest.mark.parametrize("value", [5.5, "5", True, 2**63])
def test_a_python_value_that_its_type_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(BadSelection, match="expected a 64-bit integer"):
        select(by_all, {"k_level": value}, NOTHING)


@pytest.mark.parametrize("value", ["1.505", "1e-77", "1e-99999999", "Infinity"])
def test_a_decimal_loses_no_digit(value: str) -> None:
    with pytest.raises(BadSelection, match="expected a decimal number of at most 2 places"):
        select(by_all, {"k_price": Decimal(value)}, NOTHING)


def test_an_unknown_key_gets_the_nearest() -> None:
    with pytest.raises(BadSelection, match="no key 'sit'; keys: site"):
        parse_keys(by_site, ["sit=OSLO"])
    with pytest.raises(BadSelection, match="view 'ever' has no keys"):
        select(ever, {"site": "OSLO"}, NOTHING)
    with pytest.raises(BadSelection, match="occurs twice"):
        parse_keys(by_site, ["site=A", "site=B"])


def test_a_range_needs_windows_zones_and_an_order() -> None:
    with pytest.raises(BadSelection, match="view 'ever' is of all time"):
        select(ever, {}, (EIGHT, None))
    with pytest.raises(BadSelection, match="has no time zone"):
        select(by_site, {}, (EIGHT.replace(tzinfo=None), None))
    with pytest.raises(BadSelection, match="before its start"):
        select(by_site, {}, (EIGHT, EIGHT - timedelta(hours=1)))


@pytest.mark.parametrize("text", ["2026-11-01T08:00", "2026-11-01T08:00:00Z", "2026-11-01T09:00:00+01:00"])
def test_a_time_is_utc_unless_it_names_a_zone(text: str) -> None:
    assert parse_time(text) == EIGHT


def test_a_date_alone_is_its_first_instant() -> None:
    assert parse_time("2026-11-01") == EIGHT - timedelta(hours=8)
    assert parse_time("2026-11-01T00:00:00-02:00").astimezone(timezone(timedelta(hours=-2))).hour == 0


def test_an_invalid_time_is_refused_with_examples() -> None:
    with pytest.raises(BadSelection, match="invalid time 'yesterday'; write 2026-11-01"):
        parse_time("yesterday")


@given(st.integers(-(10**15), 4 * 10**15), st.integers(1, 50))
def test_the_last_hours_end_with_the_one_that_has_begun(instant: int, hours: int) -> None:
    """Whole slices, however little of the last one has passed."""
    moment = EIGHT + instant * timedelta(microseconds=1)
    for now in (moment, moment.replace(minute=0, second=0, microsecond=0)):
        start, end = last(by_site, timedelta(hours=hours), now=now)
        assert start is not None
        assert end is not None
        assert end - start == timedelta(hours=hours)
        assert end - timedelta(hours=1) <= now < end
        assert (end.minute, end.second, end.microsecond) == (0, 0, 0)


def test_a_window_is_named_by_its_start_alone() -> None:
    """Windows of sessions may start a microsecond apart."""
    assert parse_window(by_site, "2026-11-01T08:00") == (EIGHT, EIGHT + timedelta(microseconds=1))
    assert parse_window(by_site, "9999-12-31T23:59:59.999999") == (datetime.max.replace(tzinfo=UTC), None)
    assert parse_window(ever, None) == NOTHING
