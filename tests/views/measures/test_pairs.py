"""Which pairs of events count, what their answer has, and what is refused."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.kernel.kernel import merge, partial, present
from tandem.views.measures import derived, pairs
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.source import Source
from tandem.views.testing import answer
from tandem.views.view import View, bind
from tests.samples import EPOCH, SAMPLES, Sample, placed, table
from tests.views.measures.test_funnel import twice

MINUTE = timedelta(minutes=1)


def waits(*events: tuple[float, int | None, str | None], **options: Any) -> Any:
    """The answer for events, each with its minute, its `i` (1 is left, 2 right, 3 both) and its user."""
    measure = pairs("i % 2 = 1", "i >= 2", **{"within": 10 * MINUTE, **options})
    view = View(SAMPLES, measures={"m": measure})
    rows = [{"at": EPOCH + minute * MINUTE, "i": i, "s": user} for minute, i, user in events]
    pieces = [partial(view, table(placed(rows)[number : number + 2]), EMPTY) for number in range(0, len(rows), 2)]
    (row,) = present(view, merge(view, pieces[::-1])).to_pylist()
    return row["m"]


def answered(count: int, matched: int, wait: float, shortest: float | None, longest: float | None) -> dict[str, Any]:
    """An answer with times in seconds."""
    seconds = {"wait": wait, "shortest": shortest, "longest": longest}
    exact = {name: None if value is None else Decimal(str(value)).quantize(Decimal("1e-6")) for name, value in seconds.items()}
    return {"count": count, "matched": matched, **exact}


def test_each_left_event_is_in_a_pair_with_all_right_ones_in_time() -> None:
    events = (0, 1, None), (1, 1, None), (3, 2, None), (11, 2, None)
    assert waits(*events) == answered(3, 2, 60 * (3 + 2 + 10), 120, 600)
    assert waits(*events, first=True) == answered(2, 2, 60 * (3 + 2), 120, 180)


def test_a_right_event_at_the_end_of_the_time_counts_and_a_later_one_does_not() -> None:
    assert waits((0, 1, None), (10, 2, None), (10.001, 2, None)) == answered(1, 1, 600, 600, 600)


def test_at_one_time_the_first_in_the_log_is_earlier() -> None:
    assert waits((0, 2, None), (0, 1, None), (0, 2, None)) == answered(1, 1, 0, 0, 0)


def test_an_event_of_both_sides_is_in_no_pair_with_itself() -> None:
    assert waits((0, 3, None)) == answered(0, 0, 0, None, None)
    assert waits((0, 3, None), (1, 3, None), (2, 3, None)) == answered(3, 2, 60 * 4, 60, 120)


def test_both_events_have_one_user() -> None:
    events = (0, 1, "a"), (1, 2, "b"), (2, 2, "a"), (3, 1, None), (4, 2, None)
    assert waits(*events, by="s") == answered(1, 1, 120, 120, 120)
    assert waits(*events) == answered(4, 2, 60 * (1 + 2 + 4 + 1), 60, 240)


def test_rows_made_of_one_event_are_one_event_of_a_pair() -> None:
    source = Source(topic="samples", event=Sample, event_time="at", name="twice", prepare=twice)
    view = View(source, measures={"m": pairs("i = 1", "i = 2", within=MINUTE)})
    for minutes, expected in (((0,), 0), ((0, 1), 1)):
        (row,) = answer(view, [Sample(at=EPOCH + minute * MINUTE, i=1) for minute in minutes])
        assert row["m"]["count"] == expected
    with pytest.raises(DefinitionError, match="pairs read values, and the rows that twice makes of one event are one event"):
        bind(View(source, measures={"m": pairs("i = 1", "i = 2", within=MINUTE, left_value="i")}))


def test_events_of_either_side_beyond_the_limit_make_it_null() -> None:
    events = (0, 1, None), (1, 2, None), (2, 0, None), (3, 0, None)
    assert waits(*events, limit=2) == answered(1, 1, 60, 60, 60)
    assert waits(*events, (4, 2, None), limit=2) is None


def test_waits_are_added_exactly_beyond_64_bits() -> None:
    years = 2700
    rows = [{"at": EPOCH + timedelta(days=day), "i": side} for day, side in ((0, 1), (999, 2)) for _ in range(years)]
    view = View(SAMPLES, measures={"m": pairs("i = 1", "i = 2", within=timedelta(days=1000))})
    (row,) = present(view, partial(view, table(rows), EMPTY)).to_pylist()
    wait = years * years * 999 * 86_400
    assert wait * 1_000_000 > 2**63
    assert row["m"] == answered(years * years, years, wait, 999 * 86_400, 999 * 86_400)


def test_the_mean_is_derived() -> None:
    measures = {"m": pairs("i = 1", "i = 2", within=10 * MINUTE), "mean": derived("m.wait / m.count")}
    view = View(SAMPLES, measures=measures)
    rows = [{"at": EPOCH + minute * MINUTE, "i": i} for minute, i in ((0, 1), (1, 2), (2, 2))]
    assert present(view, partial(view, table(rows), EMPTY)).to_pylist()[0]["mean"] == 90


def test_values_are_added_over_all_pairs() -> None:
    events = (0, 1, None), (1, 1, None), (3, 2, None), (11, 3, None)
    both = waits(*events, left_value="i * 10", right_value="i + 0.5")
    assert (both["count"], both["left_total"], both["right_total"]) == (3, 30, Decimal("8.5"))
    first = waits(*events, right_value="i + 0.5", first=True)
    assert first["right_total"] == 5
    assert "left_total" not in first
    assert waits((0, 1, None), (1, 2, None), left_value="NULL::INTEGER")["left_total"] == 0
    assert waits((0, 1, None), left_value="i")["left_total"] == 0


def test_totals_of_pairs_have_any_size() -> None:
    events = [(number, 3, None) for number in range(6)]
    huge = waits(*events, within=timedelta(hours=1), left_value=f"{2**62} + i", right_value=f"{2**62} - i")
    assert (huge["left_total"], huge["right_total"]) == (15 * (2**62 + 3), 15 * (2**62 - 3))
    assert waits(*events, right_value=f"CAST('{'9' * 38}' AS DECIMAL(38, 0))")["right_total"] is None


def test_the_mean_difference_is_derived() -> None:
    measure = pairs("i = 1", "i > 1", within=10 * MINUTE, left_value="i", right_value="i")
    view = View(SAMPLES, measures={"m": measure, "mean": derived("(m.right_total - m.left_total) / m.count")})
    rows = [{"at": EPOCH + minute * MINUTE, "i": i} for minute, i in ((0, 1), (1, 4), (2, 8))]
    assert present(view, partial(view, table(rows), EMPTY)).to_pylist()[0]["mean"] == 5


def test_how_sides_are_written_changes_no_fingerprint() -> None:
    def of(left: str, right: str, **options: Any) -> str:
        return fingerprint(View(SAMPLES, measures={"m": pairs(left, right, **{"within": MINUTE, **options})}))

    assert of("i = 1", "flag") == of("i=1", "(flag)")
    different = [of("i = 1", "flag"), of("flag", "i = 1"), of("flag", "flag"), of("i = 1", "flag", within=2 * MINUTE)]
    different += [of("i = 1", "flag", left_value="i"), of("i = 1", "flag", right_value="i")]
    assert of("i = 1", "flag", left_value="i+1") == of("i=1", "flag", left_value="(i + 1)")
    different += [of("i = 1", "flag", first=True), of("i = 1", "flag", by="s"), of("i = 1", "flag", limit=7)]
    assert len(set(different)) == len(different)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"left": "i"}, "view 'v', measure 'm': 'i' is of type BIGINT; a condition is BOOLEAN"),
        ({"right": "j = 1"}, "view 'v', measure 'm': 'j = 1' names a field 'j' that Sample does not have"),
        ({"right": 7}, "view 'v', measure 'm': 7 is not a text"),
        ({"by": "who"}, "view 'v', measure 'm': 'who' names a field 'who' that Sample does not have"),
        ({"within": 30}, "within 30 is not a positive timedelta of at most 1000 days"),
        ({"within": timedelta(0)}, "is not a positive timedelta"),
        ({"within": timedelta(days=1001)}, "is not a positive timedelta of at most 1000 days"),
        ({"left_value": "i / 2"}, "left_value is of type DOUBLE; it is an integer or a decimal number, so cast it to DECIMAL"),
        ({"right_value": "s"}, "right_value is of type VARCHAR; it is an integer or a decimal number"),
        ({"right_value": "j"}, "'j' names a field 'j' that Sample does not have"),
        ({"first": 1}, "first 1 is neither True nor False"),
        ({"limit": 0}, "limit 0 is not an integer from 1 to 100000"),
    ],
)
def test_what_are_no_pairs_is_refused_in_a_sentence(options: dict[str, Any], sentence: str) -> None:
    arguments: dict[str, Any] = {"left": "i = 1", "right": "i = 2", "within": MINUTE} | options
    with pytest.raises(DefinitionError, match=sentence):
        bind(View(SAMPLES, name="v", measures={"m": pairs(**arguments)}))
