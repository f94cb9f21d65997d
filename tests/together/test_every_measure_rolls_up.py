"""The states of every measure of any view unite in any rollup, of any cut and micro-batches, as if events were folded at once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import all_time, rollup
from tandem.views.kernel.kernel import Partial, merge, roll
from tests.agreement.drawn import EVERY, counting, drawn, logs
from tests.agreement.test_layers_agree import answered, folds, splits, vector, wired
from tests.agreement.windows import Cut, everything, tumbled
from tests.samples import COPIED, just


@pytest.mark.parametrize("kind", ["all time", "tumbling", "hopping", "calendar"])
@just(300, quick=3)
@given(st.data())
def test_states_of_any_measure_unite(kind: str, data: st.DataObject) -> None:
    log = data.draw(logs(COPIED), label="log")
    said = drawn(data, kind, COPIED, EVERY)
    parent = said.view
    slice_ = getattr(parent.window, "slice", None) or getattr(parent.window, "size", None)
    longer = [Cut(all_time(), everything)]
    if slice_ is not None:
        longer += [tumbled(slice_ * times) for times in (1, 2, 5)]
    chosen = data.draw(st.sampled_from(longer), label="window")
    view = rollup(parent, window=chosen.window)

    end = {partition: len(events) for partition, events in log.items()}
    nothing = dict.fromkeys(log, 0)
    cut = {partition: data.draw(st.integers(0, most), label=f"cut {partition}") for partition, most in end.items()}
    below, triggers = vector(nothing, cut), splits(data, cut, end)
    answers, rejected = replace(said, window=chosen).oracle(counting(COPIED, log, [below, *triggers]))
    parts = folds(parent, log, [below, *triggers], [below, *triggers])
    at_once = merge(parent, parts)
    rolled = [Partial(roll(view, wired(one).states), one.ranges, one.rejected) for one in parts]
    assert answered(view, merge(view, data.draw(st.permutations(rolled)))) == answers
    assert answered(view, Partial(roll(view, at_once.states), at_once.ranges)) == answers
    assert at_once.rejected == dict(rejected)
