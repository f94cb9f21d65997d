"""Measures that a project writes itself: right beside every other measure, and one sentence where they are wrong."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.errors import DefinitionError, TandemError
from tandem.views.kernel.kernel import merge, present
from tandem.views.kernel.present import present_arranged
from tandem.views.kernel.rows import to_rows
from tandem.views.measures import CustomMeasure
from tandem.views.source.value_types import FLOAT, INTEGER, TEXT
from tandem.views.verify.laws import counterexample
from tandem.views.view import View, approximations, bind, state_schema
from tests.samples import SAMPLES, share
from tests.views.kernel.test_fold_edges import answers, folded


@dataclass(frozen=True)
class Range(CustomMeasure):
    """Largest less smallest, as the documentation writes it."""

    expression: str
    state = pa.struct([("low", pa.int64()), ("high", pa.int64())])
    answer = pa.int64()

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.expression,)

    def partial(self, groups: pa.ListArray) -> pa.Array:
        return self.within(groups, "v0", "v0")

    def merge(self, groups: pa.ListArray) -> pa.Array:
        return self.within(groups, "low", "high")

    def present(self, states: pa.Array) -> pa.Array:
        return pc.subtract(states.field("high"), states.field("low"))

    def strategy(self) -> Any:
        return st.tuples(st.integers(-1000, 1000))

    def within(self, groups: pa.ListArray, low: str, high: str) -> pa.Array:
        starts = groups.offsets.to_numpy()[:-1]
        lowest = np.minimum.reduceat(groups.values.field(low).to_numpy(), starts)
        highest = np.maximum.reduceat(groups.values.field(high).to_numpy(), starts)
        return pa.StructArray.from_arrays([lowest, highest], names=["low", "high"])


def each(groups: pa.ListArray, of: Callable[[list[Any]], Any], arrow: pa.DataType) -> pa.Array:
    return pa.array([of(group) for group in groups.to_pylist()], arrow)


@dataclass(frozen=True)
class MeanOfMeans(CustomMeasure):
    """What everybody tries first, and what no split agrees on."""

    expression: str
    state = pa.float64()
    answer = pa.float64()

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.expression,)

    def partial(self, groups: pa.ListArray) -> pa.Array:
        return each(groups, lambda rows: sum(row["v0"] for row in rows) / len(rows), self.state)

    def merge(self, groups: pa.ListArray) -> pa.Array:
        return each(groups, lambda states: sum(states) / len(states), self.state)

    def present(self, states: pa.Array) -> pa.Array:
        return states

    def strategy(self) -> Any:
        return st.tuples(st.integers(0, 100))


VIEW = View(SAMPLES, keys={"s": "s"}, measures={"m": Range("i"), "some": Range("i").filtered("i > 0")}, name="ranges")


@share(30)
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.none() | st.integers(-(2**40), 2**40)), max_size=20),
    st.integers(0, 20),
)
def test_it_answers_what_plain_python_does_for_any_split(rows: list[tuple[str | None, int | None]], cut: int) -> None:
    pieces = [folded(VIEW, *({"s": s, "i": i} for s, i in piece)) for piece in (rows[:cut], rows[cut:])]
    found = {row["s"]: (row["m"], row["some"]) for row in to_rows(VIEW, present(VIEW, merge(VIEW, pieces)))}
    groups = {key: [i for s, i in rows if s == key and i is not None] for key in {s for s, _ in rows}}
    positive = {key: [i for i in group if i > 0] for key, group in groups.items()}
    assert found == {key: (span(groups[key]), span(positive[key])) for key in groups}


def span(values: Sequence[int]) -> int | None:
    return max(values) - min(values) if values else None


def test_a_slice_of_states_is_presented_like_the_whole() -> None:
    states = merge(
        VIEW, [folded(VIEW, *({"s": s, "i": i} for s, i in (("a", 1), ("a", 5), ("b", None), ("c", 2), ("c", 9))))]
    ).states
    whole = present_arranged(VIEW, states).to_pylist()
    assert [present_arranged(VIEW, states.slice(row, 1)).to_pylist()[0] for row in range(len(whole))] == whole


def test_states_stand_in_one_column_and_doubles_are_said_to_be_approximate() -> None:
    pair = pa.list_(pa.struct([("sum", pa.float64()), ("rows", pa.int64())]))
    mixed = type("Mixed", (MeanOfMeans,), {"state": pair})
    view = View(SAMPLES, measures={"r": Range("i"), "m": MeanOfMeans("i"), "mixed": mixed("i")})
    assert state_schema(view).field("r").type == Range.state
    assert {name: how.kind for name, how in approximations(view).items()} == {"m": "order", "mixed": "order"}


def fails(sentence: str, **methods: Any) -> None:
    """A measure with these methods fails, when it is folded, merged or presented, in this sentence."""
    broken = type("Broken", (Range,), methods)
    view = View(SAMPLES, measures={"m": broken("i")}, name="shop")
    with pytest.raises(TandemError) as failure:
        present(view, merge(view, [folded(view, {"i": 1}), folded(view, {"i": 2})]))
    assert str(failure.value) == f"view 'shop', measure 'm': Broken.{sentence}"


def test_no_method_sees_an_empty_array() -> None:
    """Where every group or state is null, so is what a method would give."""

    def never(given: pa.Array) -> pa.Array:
        raise AssertionError(given)

    for length in (0, 3):
        nothing = pa.nulls(length, Range.state)
        assert Range("number")._called(never, nothing, Range.answer).equals(pa.nulls(length, Range.answer))


def test_a_method_that_raises_is_one_sentence() -> None:
    for name in ("partial", "merge", "present"):

        def method(self: Any, groups: Any) -> pa.Array:
            raise ValueError("no such luck")

        method.__name__ = name
        fails(f"{name} raised ValueError: no such luck", **{name: method})


def test_a_method_that_gives_something_else_is_one_sentence() -> None:
    def present_as(result: Any) -> dict[str, Any]:
        def present(self: Any, states: Any) -> Any:
            return result

        return {"present": present}

    fails("present returned 2 values for 1; expected one for each", **present_as(pa.array([1, 2])))
    fails("present returned an array of type double; expected int64", **present_as(pa.array([1.0])))
    fails("present returned a list; expected a pyarrow.Array of type int64", **present_as([1]))
    fails("present returned a NoneType; expected a pyarrow.Array of type int64", **present_as(None))


def refused(sentence: str, measure: Any) -> None:
    with pytest.raises(DefinitionError, match=f"a view, measure 'm': {sentence}"):
        bind(View(SAMPLES, measures={"m": measure}))


def test_a_class_that_is_no_measure_is_found_when_the_view_is_bound() -> None:
    def like(**attributes: Any) -> Any:
        return type("Odd", (Range,), attributes)("i")

    refused(r"Odd.inputs is 'i', not a tuple of expressions", like(inputs="i"))
    refused(r"Odd.inputs is \(\), not a tuple of expressions", like(inputs=()))
    refused(r"Odd.state is 'int64', not one of the Arrow types", like(state="int64"))
    refused(r"Odd.state is DataType\(int32\), not one of the Arrow types", like(state=pa.int32()))
    twice = pa.struct([("a", pa.int64()), ("A", pa.int64())])
    inside = pa.struct([("plain", pa.int64()), ("twice", pa.list_(twice))])
    refused(r"Odd.state is StructType\(.*or a list or struct of them with a name for each field", like(state=inside))
    refused(r"Odd.answer is ListType\(list<item: int8>\), not one of", like(answer=pa.list_(pa.int8())))
    refused(r"Odd has no method 'merge'; a measure has partial, merge and present", like(merge=CustomMeasure.merge))
    for parameter in (["i"], len, ("i", ["j"])):
        with pytest.raises(DefinitionError, match=r"Range.expression is .*; a parameter is a text, a number, a date, or a tuple"):
            Range(parameter)  # type: ignore[arg-type]
    refused(r"CustomMeasure.inputs raised NotImplementedError", CustomMeasure())

    class Hiding(Range):
        def __init__(self) -> None:
            self.__dict__.update(expression="i", secret=1)

    refused("Hiding has an attribute 'secret' that is not a field; make it a field of a frozen dataclass", Hiding())
    with pytest.raises(DefinitionError, match="'nope' names a field 'nope' that Sample does not have"):
        bind(View(SAMPLES, measures={"m": Range("nope")}))


def test_lists_of_texts_are_written_as_texts() -> None:
    @dataclass(frozen=True)
    class All(Range):
        state = pa.list_(pa.string())
        answer = pa.list_(pa.string())

        def partial(self, groups: pa.ListArray) -> pa.Array:
            return each(groups, lambda rows: sorted(row["v0"] for row in rows), self.state)

        def merge(self, groups: pa.ListArray) -> pa.Array:
            return each(groups, lambda states: sorted(chain(*states)), self.state)

        def present(self, states: pa.Array) -> pa.Array:
            return states

    view = View(SAMPLES, measures={"m": All("s")})
    pieces = [folded(view, {"s": "b"}, {"s": "ä"}), folded(view, {"s": "a"}), folded(view, {"s": None})]
    assert to_rows(view, present(view, merge(view, pieces)))[0]["m"] == ["a", "b", "ä"]
    assert answers(view, {"s": None})[0]["m"] is None


def test_a_lawful_measure_has_no_counterexample() -> None:
    assert counterexample(Range("i"), [INTEGER]) is None


@pytest.mark.slow
def test_a_mean_of_means_is_found_out_with_few_small_rows() -> None:
    found = counterexample(MeanOfMeans("i"), [INTEGER])
    assert found is not None
    assert found.startswith("broken law: merge is associative: for rows [(0,)], [(0,)] and [(1,)], ")
    assert found == counterexample(MeanOfMeans("i"), [INTEGER])


def first_of_all(measure: Any, groups: pa.ListArray) -> pa.Array:
    return pa.repeat(Range.partial(measure, groups)[0], len(groups))


def nothing(measure: Any, groups: pa.ListArray) -> pa.Array:
    return pa.nulls(len(groups), Range.state)


@pytest.mark.parametrize(
    ("law", "attributes"),
    [
        ("groups are folded apart", {"partial": first_of_all}),
        ("a merge of one state, or of it and nothing, is that state", {"merge": nothing}),
    ],
)
def test_each_law_can_be_broken(law: str, attributes: dict[str, Any]) -> None:
    found = counterexample(type("Broken", (Range,), attributes)("i"), [INTEGER])
    assert found is not None
    assert found.startswith(f"broken law: {law}: for rows ")


@dataclass(frozen=True)
class Joined(Range):
    """The texts one after another, in the order in which they come."""

    state = pa.string()
    answer = pa.string()
    backwards: bool = False

    def partial(self, groups: pa.ListArray) -> pa.Array:
        return each(
            groups, lambda rows: "".join(row["v0"] for row in (sorted(rows, key=str) if self.backwards else rows)), self.state
        )

    def merge(self, groups: pa.ListArray) -> pa.Array:
        return each(groups, "".join, self.state)

    def present(self, states: pa.Array) -> pa.Array:
        return states

    def strategy(self) -> Any:
        return st.tuples(st.sampled_from("ab"))


def test_order_and_commutativity_are_laws() -> None:
    assert "broken law: the order of events does not matter" in str(counterexample(Joined("s"), [TEXT]))
    assert "broken law: merge is commutative" in str(counterexample(Joined("s", backwards=True), [TEXT]))


def test_a_method_that_fails_for_some_rows_is_a_counterexample() -> None:
    def present(self: Any, states: pa.Array) -> pa.Array:
        return pc.divide(pa.array([1] * len(states)), states.field("high"))

    found = counterexample(type("Broken", (Range,), {"present": present})("i"), [INTEGER])
    assert found == "Broken.present raised ArrowInvalid: divide by zero; for rows [(0,)], [] and []"


@pytest.mark.parametrize(
    ("sentence", "strategy"),
    [
        ("has no method 'strategy', so its laws cannot be tried", CustomMeasure.strategy),
        ("strategy gave 7; it gives a Hypothesis strategy for tuples of 1", lambda self: 7),
        (r"strategy gave the row \(1, 2\); it gives", lambda self: st.tuples(st.just(1), st.just(2))),
        (r"strategy gave the row \(None,\); it gives", lambda self: st.tuples(st.none())),
        (r"strategy gave a row that is not \(BIGINT\)", lambda self: st.tuples(st.just("a"))),
        ("strategy raised ZeroDivisionError", lambda self: 1 // 0),
        ("strategy cannot be drawn from", lambda self: st.tuples(st.integers().filter(lambda n: False))),
    ],
)
def test_a_strategy_that_is_none_is_one_sentence(sentence: str, strategy: Any) -> None:
    with pytest.raises(TandemError, match=f"Broken.?{sentence}"):
        counterexample(type("Broken", (Range,), {"strategy": strategy})("i"), [INTEGER])


@pytest.mark.slow
def test_doubles_may_differ_by_rounding() -> None:
    @dataclass(frozen=True)
    class Sum(MeanOfMeans):
        def partial(self, groups: pa.ListArray) -> pa.Array:
            return each(groups, lambda rows: sum(row["v0"] for row in rows), self.state)

        def merge(self, groups: pa.ListArray) -> pa.Array:
            return each(groups, sum, self.state)

        def strategy(self) -> Any:
            return st.tuples(st.floats(0, 1))

    assert counterexample(Sum("f"), [FLOAT]) is None


@pytest.mark.parametrize("method", ["partial", "merge", "present", "strategy"])
def test_what_a_class_leaves_out_is_no_answer(method: str) -> None:
    class Bare(CustomMeasure):
        state = answer = pa.int64()

    with pytest.raises(NotImplementedError):
        getattr(Bare(), method)(*([] if method == "strategy" else [pa.array([], pa.int64())]))
