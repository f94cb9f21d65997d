"""The tasks of a micro-batch read what Spark planned, or nothing is committed: at every bound of the plan."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.log.counts import Counts
from tandem.speed.micro_batch.fold import RangeMismatch, _counts
from tandem.speed.micro_batch.task import Share
from tandem.views.source.offset_ranges import Ranges

PLANNED = Ranges.of({("T", 0): (3, 7), ("T", 1): (0, 2), ("U", 0): (5, 6)})
Place = tuple[tuple[str, int], int]
PLACES: list[Place] = [(partition, at) for partition, intervals in PLANNED.intervals for ends in intervals for at in range(*ends)]
EMPTY = Share([], 0, {}, 0, 0, 0, 0, 0, {}, [], None, {}, {}, b"")
NUMBERS = ("events", "duplicates", "others", "further", "late", "ahead", "off_calendar", "rounded")
TASKS = st.lists(st.lists(st.sampled_from(PLACES), unique=True), max_size=4)


@given(TASKS, st.lists(st.integers(0, 3), min_size=32, max_size=32))
def test_counts_of_tasks_add_up_and_unread_offsets_are_holes(tasks: list[list[Place]], drawn: list[int]) -> None:
    once: set[Place] = set()
    shares, numbers = [], iter(drawn)
    for places in tasks:
        own = [place for place in places if place not in once]
        once |= set(own)
        records = []
        for partition in {partition for partition, _ in own}:
            offsets = [offset for at, offset in own if at == partition]
            records.append((partition, len(offsets), min(offsets), max(offsets)))
        counted = {name: next(numbers) for name in NUMBERS}
        shares.append(Share(**(_fields(EMPTY) | counted | {"records": records, "quarantined": {"json": counted["late"]}})))
    found = _counts(shares, PLANNED)
    assert found.holes == len(PLACES) - len(once)
    assert {name: getattr(found, name) for name in NUMBERS} == {
        name: sum(getattr(share, name) for share in shares) for name in NUMBERS
    }
    assert Counter(found.quarantined) == Counter({"json": found.late})


def _fields(share: Share) -> dict[str, Any]:
    return {name: getattr(share, name) for name in share.__struct_fields__}


@pytest.mark.parametrize(
    "record",
    [
        (("T", 0), 1, 2, 3),
        (("T", 0), 1, 6, 7),
        (("T", 2), 1, 0, 0),
        (("U", 1), 1, 5, 5),
        (("T", 0), 1, 5, 4),
    ],
)
def test_a_record_beyond_the_plan_fails_the_micro_batch(record: tuple[tuple[str, int], int, int, int]) -> None:
    with pytest.raises(RangeMismatch, match="was planned; this micro-batch was not committed"):
        _counts([_reading(record)], PLANNED)


def test_more_records_than_planned_fail_the_micro_batch() -> None:
    whole = [_reading((("T", 0), 4, 3, 6)), _reading((("T", 1), 2, 0, 1)), _reading((("U", 0), 1, 5, 5))]
    assert _counts(whole, PLANNED) == Counts()
    with pytest.raises(RangeMismatch, match="8 records were read from a range of 7 offsets"):
        _counts([*whole, _reading((("U", 0), 1, 5, 5))], PLANNED)


def _reading(record: tuple[tuple[str, int], int, int, int]) -> Share:
    return Share(**(_fields(EMPTY) | {"records": [record]}))
