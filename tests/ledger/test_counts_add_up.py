"""Counts of disjoint ranges add up to those of the whole, field by field, in any order."""

from collections import Counter
from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.log.counts import NOTHING, Counts, add, plus

numbers = st.dictionaries(st.sampled_from("abc"), st.integers(0, 5))
COUNTED = [each.name for each in fields(Counts) if each.name != "quarantined"]
counts = st.builds(Counts, quarantined=numbers, **{name: st.integers(0, 9) for name in COUNTED})


@given(st.lists(numbers))
def test_numbers_are_added_by_name_in_order(several: list[dict[str, int]]) -> None:
    total: Counter[str] = Counter()
    for each in several:
        total.update(each)
    assert add(*several) == dict(total)
    assert list(add(*several)) == sorted(total)


@given(st.lists(counts, max_size=4))
def test_counts_are_added_field_by_field(several: list[Counts]) -> None:
    whole = plus(*several)
    assert {name: getattr(whole, name) for name in COUNTED} == {
        name: sum(getattr(one, name) for one in several) for name in COUNTED
    }
    assert whole.quarantined == add(*(one.quarantined for one in several))
    assert whole == plus(*several[::-1]) == plus(NOTHING, *several)
    for name in ("records", "rejects", "offsets"):
        assert getattr(whole, name) == sum(getattr(one, name) for one in several)
    assert Counts.from_json(whole.to_json()) == whole


def test_a_missing_count_is_0() -> None:
    assert Counts.from_json({}) == NOTHING == plus()
    assert {getattr(NOTHING, name) for name in COUNTED} == {0}
    assert NOTHING.offsets == 0


def test_every_offset_of_a_range_has_one_outcome() -> None:
    found = Counts(events=7, quarantined={"json": 2, "time": 1}, holes=4, duplicates=3, others=5, further=1)
    assert (found.records, found.rejects, found.offsets) == (9, 3, 21)
