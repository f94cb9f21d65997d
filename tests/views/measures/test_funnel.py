"""A funnel's steps: their order, the time that they may take, what is one event, and what is refused."""

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.kernel.kernel import merge, partial, present
from tandem.views.measures import derived, funnel
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.source import Source
from tandem.views.testing import answer
from tandem.views.view import View, bind
from tests.samples import EPOCH, SAMPLES, Sample, placed, table

MINUTE = timedelta(minutes=1)
STEPS = ("i = 1", "i = 2", "i = 3")


def steps_of(*events: tuple[int, int | None, str | None], steps: tuple[str, ...] = STEPS, limit: int = 1000) -> Any:
    """The answer for events, each with its minute, its `i` and its user."""
    view = View(SAMPLES, measures={"m": funnel(steps, within=10 * MINUTE, by="s", limit=limit)})
    rows = [{"at": EPOCH + minute * MINUTE, "i": i, "s": user} for minute, i, user in events]
    pieces = [partial(view, table(placed(rows)[number : number + 2]), EMPTY) for number in range(0, len(rows), 2)]
    (row,) = present(view, merge(view, pieces[::-1])).to_pylist()
    return row["m"]


def test_a_user_counts_for_each_step_up_to_the_furthest() -> None:
    assert steps_of((0, 1, "a"), (1, 2, "a"), (2, 3, "a"), (0, 1, "b"), (1, 2, "b"), (0, 1, "c"), (5, 3, "c")) == [3, 2, 1]


def test_an_event_at_the_end_of_the_time_counts_and_a_later_one_does_not() -> None:
    assert steps_of((0, 1, "a"), (10, 2, "a"), (0, 1, "b"), (11, 2, "b")) == [2, 1, 0]


def test_time_runs_from_the_first_step() -> None:
    assert steps_of((0, 1, "a"), (9, 2, "a"), (11, 3, "a")) == [1, 1, 0]


def test_a_later_attempt_may_go_further_and_an_earlier_one_too() -> None:
    assert steps_of((0, 1, "a"), (5, 1, "a"), (9, 2, "a"), (15, 3, "a")) == [1, 1, 1]
    assert steps_of((0, 1, "a"), (1, 2, "a"), (2, 3, "a"), (3, 1, "a")) == [1, 1, 1]
    assert steps_of((0, 1, "a"), (2, 2, "a"), (3, 1, "a"), (12, 3, "a")) == [1, 1, 0]


def test_events_at_one_time_go_by_their_places() -> None:
    assert steps_of((0, 1, "a"), (0, 2, "a"), (0, 2, "b"), (0, 1, "b")) == [2, 1, 0]


def test_one_event_is_one_step_of_an_attempt() -> None:
    assert steps_of((0, 1, "a"), steps=("i = 1", "i >= 1")) == [1, 0]
    assert steps_of((0, 1, "a"), (1, 1, "a"), steps=("i = 1", "i >= 1", "i = 1")) == [1, 1, 0]


def twice(events: pa.Table) -> pa.Table:
    """Each event, and a row of the next step."""
    more = events.set_column(events.schema.get_field_index("i"), "i", pc.add(events["i"], 1))
    return pa.concat_tables([events, more])


def test_rows_made_of_one_event_are_one_event() -> None:
    source = Source(topic="samples", event=Sample, event_time="at", name="twice", prepare=twice)
    view = View(source, measures={"m": funnel(("i = 1", "i = 2"), within=MINUTE, by="s")})
    for minutes, expected in (((0,), [1, 0]), ((0, 1), [1, 1])):
        (row,) = answer(view, [Sample(at=EPOCH + minute * MINUTE, i=1, s="a") for minute in minutes])
        assert row["m"] == expected


def test_without_a_user_or_a_step_nobody_is_counted() -> None:
    assert steps_of((0, 1, None), (1, 4, "a"), (2, None, "a")) == [0, 0, 0]


def test_events_beyond_the_limit_make_it_null_and_those_without_a_step_do_not_count() -> None:
    few = [(0, 1, "a"), (1, 2, "a"), (2, 9, "a"), (3, 9, "a")]
    assert steps_of(*few, limit=2) == [1, 1, 0]
    assert steps_of(*few, (4, 1, "b"), limit=2) is None


def test_32_steps_are_32_bits() -> None:
    steps = tuple(f"i = {number}" for number in range(32))
    events = [(0, number, "a") for number in range(32)]
    assert steps_of(*events, steps=steps) == [1] * 32


def test_rates_are_derived() -> None:
    measures = {"m": funnel(STEPS, within=MINUTE, by="s"), "rate": derived("m[2] / m[1]")}
    view = View(SAMPLES, measures=measures)
    rows = [{"at": EPOCH, "i": i, "s": s} for i, s in ((1, "a"), (2, "a"), (1, "b"))]
    assert present(view, partial(view, table(rows), EMPTY)).to_pylist()[0]["rate"] == 0.5


def test_how_steps_are_written_changes_no_fingerprint() -> None:
    def of(*steps: str, minutes: int = 1) -> str:
        return fingerprint(View(SAMPLES, measures={"m": funnel(steps, within=minutes * MINUTE, by="s")}))

    assert of("i = 1", "flag") == of("i=1", "(flag)")
    assert len({of("i = 1", "flag"), of("flag", "i = 1"), of("i = 1", "flag", "flag"), of("i = 1", "flag", minutes=2)}) == 4


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"steps": "i = 1"}, "steps 'i = 1' is not a tuple, such as"),
        ({"steps": ("i = 1",)}, "a funnel has 2 to 32 steps, such as .*; here are 1"),
        ({"steps": ("i = 1",) * 33}, "a funnel has 2 to 32 steps, such as .*; here are 33"),
        ({"steps": ("i = 1", "i")}, "view 'v', measure 'm': 'i' is of type BIGINT; a condition is BOOLEAN"),
        ({"steps": ("i = 1", "i =")}, "view 'v', measure 'm': 'i =' is not SQL"),
        ({"steps": ("i = 1", "j = 1")}, "view 'v', measure 'm': 'j = 1' names a field 'j' that Sample does not have"),
        ({"steps": ("i = 1", 7)}, "view 'v', measure 'm': 7 is not a text"),
        ({"by": "who"}, "view 'v', measure 'm': 'who' names a field 'who' that Sample does not have"),
        ({"within": 30}, "within 30 is not a positive timedelta"),
        ({"within": timedelta(0)}, "is not a positive timedelta"),
        ({"limit": 0}, "limit 0 is not an integer from 1 to 100000"),
        ({"limit": True}, "limit True is not an integer from 1 to 100000"),
    ],
)
def test_what_is_no_funnel_is_refused_in_a_sentence(options: dict[str, Any], sentence: str) -> None:
    arguments: dict[str, Any] = {"steps": STEPS, "within": MINUTE, "by": "s"} | options
    with pytest.raises(DefinitionError, match=sentence):
        bind(View(SAMPLES, name="v", measures={"m": funnel(**arguments)}))
