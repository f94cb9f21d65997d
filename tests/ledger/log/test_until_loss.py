"""How long unarchived records are safe: the least of all partitions, by age and by size, with a timely warning."""

from datetime import timedelta

import pytest

from tandem.ledger.log.retention import Retention, UnarchivedOffsets, UntilLoss, until_loss
from tests.ledger.tiny import AT

DAY = timedelta(days=1)
WEEK = Retention(timedelta(days=7))
LIMITED = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "-1"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, WEEK),
        ({"retention.ms": "-1"}, Retention()),
        ({"retention.bytes": "5"}, Retention(timedelta(days=7), 5)),
        ({"cleanup.policy": "compact"}, Retention()),
        ({"cleanup.policy": "compact,delete"}, WEEK),
        ({"retention.ms": "0", "retention.bytes": "0"}, Retention(timedelta(0), 0)),
    ],
)
def test_retention_is_read_from_a_topics_configuration(change: dict[str, str], expected: Retention) -> None:
    assert Retention.of(LIMITED | change) == expected


def left(*waiting: UnarchivedOffsets, lost: int = 0, warn: timedelta = DAY) -> UntilLoss:
    return until_loss(waiting, lost=lost, now=AT, warn=warn)


def of_age(age: timedelta, retention: Retention = WEEK) -> UnarchivedOffsets:
    return UnarchivedOffsets(retention, 5, AT - age, 30)


def test_without_a_backlog_or_a_limit_the_value_is_null() -> None:
    assert left() == left(of_age(99 * DAY, Retention())) == UntilLoss()
    assert UntilLoss().to_json() == {"seconds": None, "offsets": None, "lost": 0, "warning": None}


def test_the_oldest_record_of_all_partitions_decides() -> None:
    found = left(of_age(DAY), of_age(2 * DAY))
    assert (found.seconds, found.offsets, found.warning) == (5 * 86400, None, None)
    assert left(of_age(9 * DAY)).seconds == 0


@pytest.mark.parametrize(
    ("days", "kept", "warn", "short"),
    [
        (6.01, 7, 24, True),
        (5.99, 7, 24, False),
        (0.6, 1, 24, True),
        (0.4, 1, 24, False),
        (6.9, 7, 0, False),
        (0.1, 7, 999, False),
    ],
)
def test_it_warns_below_the_threshold_or_half_of_the_retention(days: float, kept: int, warn: int, *, short: bool) -> None:
    found = left(of_age(days * DAY, Retention(kept * DAY)), warn=timedelta(hours=warn))
    assert found.short is short
    assert (found.warning is not None) is short


def test_the_size_limit_gives_the_offsets_until_a_loss() -> None:
    """100 bytes a record: 30 of its own and what Kafka may add."""
    full = Retention(None, 10_000)
    found = left(UnarchivedOffsets(full, 40, AT - 99 * DAY, 30), UnarchivedOffsets(full, 20, AT, 30))
    assert (found.seconds, found.offsets, found.short) == (None, 60, False)
    assert (
        left(UnarchivedOffsets(full, 51, AT, 30)).warning
        == "in 49 offsets the log may lose records that are not archived; run `tandem archive`"
    )
    assert left(UnarchivedOffsets(full, 999, AT, 30)).offsets == 0


def test_both_limits_are_reported() -> None:
    found = left(UnarchivedOffsets(Retention(7 * DAY, 10_000), 10, AT - 6.5 * DAY, 30))
    assert (found.seconds, found.offsets) == (43200, 90)
    assert found.warning == "in 12.0 hours or 90 offsets the log may lose records that are not archived; run `tandem archive`"


def test_a_timestamp_older_than_the_retention_is_reported() -> None:
    """A producer's clock, or an event time as timestamp: the broker goes by it, and may delete the record at any time."""
    found = left(of_age(3 * DAY), of_age(20_000 * DAY), of_age(8 * DAY))
    assert (found.seconds, found.expired) == (0, AT - 20_000 * DAY)
    assert found.warning == (
        "the timestamp 1972-01-29T12:00:00Z of a record that is not archived is older than the topic's retention: the broker may "
        "delete it at any time; run `tandem archive`, and check the producer's clock"
    )


@pytest.mark.parametrize(("short_of", "expired"), [(timedelta(microseconds=1), False), (timedelta(0), True)])
def test_a_record_expires_at_the_end_of_its_retention(short_of: timedelta, *, expired: bool) -> None:
    assert left(of_age(7 * DAY - short_of)).expired == (AT - 7 * DAY if expired else None)


@pytest.mark.parametrize("written", ["9223372036854775807", "31536000000000000"])
def test_a_thousand_years_count_as_unlimited(written: str) -> None:
    assert Retention.of(LIMITED | {"retention.ms": written}) == Retention()


def test_losses_are_reported_first() -> None:
    found = left(of_age(9 * DAY), lost=3)
    assert found.warning == "3 offsets were lost before they were archived; `tandem archive` records them as a gap"
