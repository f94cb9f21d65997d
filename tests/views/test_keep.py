"""Which windows leave a view: by the greatest event time below a position alone; only windows of their own can."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Source, View, calendar, count, hopping, session, tumbling
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish.batch_parts import BatchPart, BatchView
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.instant import APPEND_TIME, microseconds
from tandem.views.kernel.first_window import first_window
from tandem.views.source.watermark import Newest
from tandem.views.view import bind

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Ping(Event):
    at: datetime


class Named(Event):
    id: str
    at: datetime


def as_they_are(events: pa.Table) -> pa.Table:
    return events


PINGS = Source(topic="pings", event=Ping, event_time="at")
HOURLY = View(source=PINGS, window=tumbling(hours=1), measures={"n": count()}, keep=timedelta(hours=5), name="hourly")


def maxima(*times: datetime) -> dict[tuple[str, int], Newest]:
    return {("T", number): Newest(microseconds(time), 0) for number, time in enumerate(times)}


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=3), st.integers(-(10**6), 10**6), st.integers(1, 10**6))
def test_a_window_stays_until_it_ends_as_long_before_the_greatest_time_as_the_view_keeps(
    seconds: list[int], start: int, keep: int
) -> None:
    view = replace(HOURLY, keep=timedelta(seconds=keep))
    first = first_window(view, maxima(*(NOON + timedelta(seconds=each) for each in seconds)))
    window = NOON + timedelta(hours=start // 3600)
    assert first is not None
    assert (window >= first) == (window + timedelta(hours=1) > NOON + timedelta(seconds=max(seconds) - keep))


def test_nothing_leaves_without_events_or_without_keep() -> None:
    assert first_window(HOURLY, {}) is None
    assert first_window(replace(HOURLY, keep=None), maxima(NOON)) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keep": timedelta(0)}, "keep: .* is not a positive timedelta"),
        ({"keep": 5}, "keep: 5 is not a positive timedelta"),
        ({"window": hopping(timedelta(hours=2), every=timedelta(hours=1))}, "only windows that do not overlap"),
        ({"window": session(minutes=5)}, "only windows that do not overlap"),
    ],
)
def test_windows_that_cannot_leave_alone_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        bind(replace(HOURLY, **changes))


def test_keep_is_in_the_fingerprint_only_where_it_is_given() -> None:
    """With it also `clock_skew`, which decides the events whose times count."""
    plain = replace(HOURLY, keep=None)
    skewed = replace(PINGS, clock_skew=timedelta(hours=2))
    assert fingerprint(plain) == fingerprint(replace(plain, source=skewed))
    assert (
        len({fingerprint(view) for view in (plain, HOURLY, replace(HOURLY, keep=timedelta(1)), replace(HOURLY, source=skewed))})
        == 4
    )
    assert first_window(replace(HOURLY, window=calendar("day", zone="Europe/Berlin")), maxima(NOON)) == NOON - timedelta(hours=13)


def test_the_bounds_of_what_left_say_what_is_still_stored() -> None:
    """A rebuilt base has nothing that had left before; a further part leaves the base as it is. The time never steps back."""
    base = BatchView("f", (BatchPart(1, 5, LOG_START),))
    first = base.with_gone(NOON, base)
    assert (first.first_window, first.log_parts, first.version) == (NOON, base.parts, 1)
    hour = timedelta(hours=1)
    grown = replace(base, parts=(*base.parts, BatchPart(2, 1, LOG_START))).with_gone(NOON + hour, first)
    assert grown.gone == (first.gone and first.gone[0], NOON + hour)
    rebuilt = replace(base, parts=(BatchPart(3, 5, LOG_START),)).with_gone(NOON + 2 * hour, grown)
    assert rebuilt.gone == (NOON + hour, NOON + 2 * hour)
    assert replace(base, parts=(BatchPart(4, 5, LOG_START),)).with_gone(NOON, rebuilt).first_window == NOON + 2 * hour
    assert BatchView.from_json(rebuilt.to_json()) == rebuilt
    assert "gone" not in str(base.to_json())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keep": timedelta(0)}, "keep .* is not a positive timedelta"),
        ({"keep": 90}, "keep 90 is not a positive timedelta"),
        ({"identity": ("id",), "identity_spans": "any_time"}, "may be a duplicate of each earlier record, so all records stay"),
        ({"identity": ("id",), "event_time": APPEND_TIME}, "needs an identity that spans one event time"),
        ({"prepare": as_they_are}, "prepare as_they_are may change it, so all records stay"),
    ],
)
def test_sources_whose_old_records_may_count_in_new_windows_keep_them_all(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        Source(**{"topic": "pings", "event": Named, "event_time": "at", "keep": timedelta(days=90), **changes})


def test_each_view_of_a_source_that_keeps_records_for_some_time_keeps_windows_for_some_time() -> None:
    source = replace(PINGS, keep=timedelta(days=90), name="pings")
    assert fingerprint(replace(HOURLY, source=source)) == fingerprint(replace(HOURLY, source=replace(source, keep=None)))
    with pytest.raises(DefinitionError, match="view 'hourly' has no keep, so it needs all records, but source pings keeps them"):
        bind(replace(HOURLY, source=source, keep=None))
