"""Times become a column whole, and each is the same instant as if it were alone."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tandem import Event
from tandem.views.source.event import event_fields
from tandem.views.source.fields.columns import column, unfit
from tandem.views.source.fields.reasons import Reject


class Timed(Event):
    """A time, and perhaps another."""

    at: datetime
    until: datetime | None = None


AT, UNTIL = event_fields(Timed)
ZONES = st.one_of(
    st.just(UTC), st.timezones(), st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
)
EAST = timezone(timedelta(hours=14))


@given(st.lists(st.datetimes(timezones=ZONES), max_size=5))
@example([datetime(1, 1, 1, 13, 59, tzinfo=EAST)])
@example([datetime(9999, 12, 31, 10, tzinfo=timezone(-timedelta(hours=14)))])
def test_a_column_of_times_has_each_instant(times: list[datetime]) -> None:
    if any(unfit(AT, time) for time in times):
        with pytest.raises(Reject, match="not a year of UTC"):
            column(AT, times)
        return
    whole = column(AT, times)
    assert whole.type == AT.arrow
    assert whole.to_pylist() == [time.astimezone(UTC) for time in times]
    assert column(UNTIL, [None, *times]).to_pylist() == [None, *whole.to_pylist()]


def test_a_time_without_a_zone_is_rejected_among_others() -> None:
    with pytest.raises(Reject, match="field at has no zone"):
        column(AT, [datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 1)])  # noqa: DTZ001  that is what is tested
