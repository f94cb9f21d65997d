"""`checked_answer` gives what `answer` gives, and finds what depends on the cut, on the order of a merge, or is simply wrong."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from tandem.views.kernel.kernel import Partial, merge
from tandem.views.measures import approx_count_distinct, approx_quantiles, count, last, mean, stddev, total
from tandem.views.source.source import Source
from tandem.views.testing import answer, rejected
from tandem.views.verify import every_cut
from tandem.views.verify.every_cut import at_every_cut, checked_answer
from tandem.views.view import View
from tandem.views.windows import all_time, count_window, hopping, session, sliding_count_window, tumbling
from tests.views.measures.test_custom import Range
from tests.views.test_testing import HOURLY, SALES, Sale, sale

MEASURES = {
    "n": count(),
    "amount": total("amount"),
    "mean": mean("amount"),
    "deviation": stddev("number / 7"),
    "different": approx_count_distinct("number"),
    "middle": approx_quantiles("amount", (0.5,)),
    "latest": last("number"),
    "spread": Range("number"),
    "inverse": total("100 // (number - 1)", filter="number < 3"),
}
WINDOWS = (
    all_time(),
    tumbling(hours=1),
    hopping(timedelta(hours=2), every=timedelta(hours=1)),
    session(hours=1),
    count_window(2),
    sliding_count_window(3),
)
UNIQUE = [sale(n % 5, 9 + n % 3, f"{n}.10", "shop" if n % 4 else "web") for n in range(9)]
EVENTS = [*UNIQUE, *UNIQUE[:3]]


@pytest.mark.each_run("tumbling*", "session*", "sliding*")
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_rows_are_those_of_the_whole_log_at_every_cut(window: Any) -> None:
    view = View(SALES, keys={"channel": "channel"}, window=window, measures=MEASURES)
    whole = answer(view, EVENTS)
    assert whole
    assert checked_answer(view, EVENTS) == whole
    # A sum of doubles, of which the last digit follows the cut.
    exact = [[{**row, "deviation": None} for row in rows] for rows in at_every_cut(view, EVENTS)]
    assert exact == [[{**row, "deviation": None} for row in whole]] * (len(EVENTS) + 1)
    assert rejected(view, EVENTS) == {"expression": 2}


def test_no_events_have_one_cut_and_no_rows() -> None:
    assert checked_answer(HOURLY, []) == []
    assert list(at_every_cut(HOURLY, iter([]))) == [[]]


def failing(events: pa.Table) -> pa.Table:
    if 3 in events["number"].to_pylist():
        raise ValueError("three")
    return events


def test_what_cannot_be_prepared_is_rejected_at_every_cut() -> None:
    view = View(Source(topic="sales", event=Sale, event_time="at", prepare=failing), measures={"n": count()})
    (row,) = checked_answer(view, [sale(number, 9, "1") for number in (1, 2, 3, 4)])
    assert row["n"] == 3


@dataclass(frozen=True)
class Pieces(Range):
    """How many states were merged: another number for another cut."""

    def merge(self, groups: pa.ListArray) -> pa.Array:
        merged = super().merge(groups)
        high = [one["high"] + len(states) for one, states in zip(merged.to_pylist(), groups.to_pylist(), strict=True)]
        return pa.StructArray.from_arrays([merged.field("low"), pa.array(high, pa.int64())], names=["low", "high"])


def test_a_measure_of_the_project_that_follows_the_cut_is_found() -> None:
    view = View(SALES, measures={"n": count(), "pieces": Pieces("number")})
    with pytest.raises(AssertionError) as found:
        checked_answer(view, [sale(1, 9, "1"), sale(5, 9, "1")])
    assert str(found.value).startswith("with the cut after 1 of 2 events measure 'pieces' differs in 1 of 1 rows: ")


def dropping(change: Callable[[list[Partial]], list[Partial]]) -> Any:
    return lambda view, partials: merge(view, change(partials))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda parts: parts[:1], "with the cut after 0 of 3 events the view rejects {}, the oracle"),
        (lambda parts: [parts[1], parts[1]], "with the cut after 0 of 3 events the view rejects {'expression': 2}"),
    ],
    ids=["realtime is left out", "realtime counts twice"],
)
def test_a_kernel_that_loses_or_doubles_is_found(monkeypatch: pytest.MonkeyPatch, change: Any, said: str) -> None:
    view = View(SALES, measures={"n": count(), "inverse": total("1 // (number - 1)")})
    monkeypatch.setattr(every_cut, "merge", dropping(change))
    with pytest.raises(AssertionError, match="the oracle") as found:
        checked_answer(view, [sale(number, 9, "1") for number in (1, 2, 3)])
    assert str(found.value).startswith(said)


def test_rows_that_differ_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(every_cut, "merge", dropping(lambda parts: [parts[0]]))
    with pytest.raises(AssertionError) as found:
        checked_answer(HOURLY, [sale(1, 9, "1.10"), sale(2, 9, "2.20", "shop")])
    assert str(found.value).startswith("with the cut after 0 of 2 events measure 'n' differs in 2 of 2 rows: ")
    assert "'channel': 'shop'" in str(found.value)
    assert "no such row" in str(found.value)
