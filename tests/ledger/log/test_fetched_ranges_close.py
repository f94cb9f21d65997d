"""Rule 5: a range is committed only if every offset is accounted for and the log is still the planned one."""

from dataclasses import replace
from typing import Any

import pytest

from tandem.ledger.log.counts import Counts, plus
from tandem.ledger.log.fetch_checks import LogChanged, Unclosed, refuse_changed_log, refuse_new_topic, refuse_unclosed
from tandem.views.source.offset_ranges import Ranges

P, Q = ("T", 0), ("T", 1)
TEN = Ranges.of({P: (5, 12), Q: (0, 3)})


def test_events_quarantine_duplicates_and_explained_holes_make_the_length() -> None:
    refuse_unclosed(TEN, Counts(events=5, quarantined={"json": 1, "time": 1}, duplicates=1, holes=2, late=4, conflicts=1))


def test_a_record_of_several_events_counts_once() -> None:
    counts = Counts(events=9, duplicates=2, further=4, quarantined={"json": 1}, holes=2)
    assert counts.records == 7
    refuse_unclosed(TEN, counts)
    assert Counts.from_json(counts.to_json()) == counts
    assert plus(counts, counts).further == 8
    with pytest.raises(Unclosed, match=r"14 outcomes .* 11 records with 9 events and 2 duplicates"):
        refuse_unclosed(TEN, replace(counts, further=0))


@pytest.mark.parametrize("events", [9, 11])
def test_a_range_with_unexplained_offsets_is_refused(events: int) -> None:
    with pytest.raises(Unclosed, match=f"{events} outcomes were counted for 10 offsets"):
        refuse_unclosed(TEN, Counts(events=events))


def test_a_log_that_only_grew_is_the_same_log() -> None:
    refuse_changed_log({P: 5, Q: 0}, firsts={P: 5, Q: 0}, ends={P: 12, Q: 0})


@pytest.mark.parametrize(
    ("starts", "firsts", "end", "says"),
    [
        ({P: 5}, {P: 6}, 12, "partition 0 of topic T now begins at 6, after 5"),
        ({Q: 0}, {Q: 1}, 12, "now begins at 1, after 0"),
        ({P: 5}, {P: 0}, 4, "ends at 4, below 5"),
        ({P: 5}, {("U", 0): 0}, 9, "partition 0 of topic T no longer exists"),
    ],
)
def test_a_log_that_lost_offsets_or_is_another_one_is_refused(starts: Any, firsts: Any, end: int, says: str) -> None:
    with pytest.raises(LogChanged, match=says):
        refuse_changed_log(starts, firsts=firsts, ends=dict.fromkeys(firsts, end))


def test_a_topic_that_was_never_read_may_be_new() -> None:
    refuse_new_topic({"sales": "b"}, [], {})
    refuse_new_topic({"sales": "b"}, [("a", 0), ("b", 0)], {})
    # Accepted before it had a record.
    refuse_new_topic({"sales": "b"}, [("a", 0)], {"a": "sales", "b": "sales"})
    with pytest.raises(LogChanged, match="topic 'sales' was deleted and created again"):
        refuse_new_topic({"sales": "b"}, [("a", 0)], {})


def test_each_of_several_topics_is_recognized_by_its_name() -> None:
    """Another topic's former records say nothing of one that is added, taken away, or still empty."""
    known = {"a1": "a", "b1": "b"}
    refuse_new_topic({"a": "a1", "b": "b1"}, [("a1", 0)], {"a1": "a"})
    refuse_new_topic({"a": "a1", "b": "b2"}, [("a1", 0)], {"a1": "a"})
    refuse_new_topic({"a": "a1"}, [("a1", 0), ("b1", 0)], known)
    refuse_new_topic({"c": "c1"}, [("a1", 0), ("b1", 0)], known)
    refuse_new_topic({"a": "a2", "b": "b1"}, [("a1", 0), ("a2", 0), ("b1", 1)], known)
    with pytest.raises(LogChanged, match="topic 'b' was deleted and created again"):
        refuse_new_topic({"a": "a1", "b": "b2"}, [("a1", 0), ("b1", 0)], known)
    # An id that no archive run has named may have been any topic's.
    with pytest.raises(LogChanged, match="topic 'b' was deleted and created again"):
        refuse_new_topic({"a": "a1", "b": "b2"}, [("a1", 0), ("b1", 0)], {"a1": "a"})
