"""The hours that a run reports, and the meaning of a view that is published past a position."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from tandem_dags.progress import at_or_below, ended

AT = datetime(2026, 11, 1, 4, 30, tzinfo=UTC)


def test_hours_are_those_that_ended_since_the_last_run() -> None:
    assert ended(AT - timedelta(hours=2, minutes=5), AT) == ["2026-11-01T02:00:00", "2026-11-01T03:00:00"]
    assert ended(AT - timedelta(minutes=20), AT) == []
    assert ended(AT + timedelta(days=1), AT) == []


def test_the_first_run_reports_the_last_hour() -> None:
    assert ended(None, AT) == ["2026-11-01T03:00:00"]


def test_consecutive_runs_report_every_hour_once() -> None:
    times = [AT + timedelta(minutes=50 * n) for n in range(40)]
    told = [hour for before, now in pairwise(times) for hour in ended(before, now)]
    assert told == sorted(set(told))
    assert told == ended(times[0], times[-1])


def test_after_a_long_pause_at_most_two_weeks_are_reported() -> None:
    assert len(ended(AT - timedelta(days=400), AT)) == 24 * 14


def test_a_position_is_published_once_all_its_partitions_are() -> None:
    cut = {"t": {"0": 5, "1": 7}}
    assert at_or_below({"t": {"0": 5, "1": 6}}, cut)
    assert at_or_below({"t": {"0": "5"}}, cut)
    assert at_or_below({}, cut)
    assert not at_or_below({"t": {"0": 6, "1": 7}}, cut)
    assert not at_or_below({"other": {"0": 1}}, cut)
