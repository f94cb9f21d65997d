"""The state of a measure where its source has no event: uniting it with any other state changes nothing."""

from dataclasses import replace
from typing import Any

from hypothesis import given

from tandem import View, count, tumbling
from tandem.views.kernel.kernel import Partial, merge, partial, present, roll
from tandem.views.measures.derived import Derived
from tandem.views.measures.of_source import OfSource
from tandem.views.source.offset_ranges import Ranges
from tests.laws.test_measures import MEASURES, VIEW, assert_same, events, fold
from tests.samples import SAMPLES, share, table

OTHERS = replace(SAMPLES, topic="others", name="others")
BOTH = View(
    source=(SAMPLES, OTHERS),
    keys=VIEW.keys,
    window=tumbling(hours=1),
    measures={
        **{name: measure if isinstance(measure, Derived) else OfSource(measure, SAMPLES) for name, measure in MEASURES.items()},
        "others": count(of=OTHERS),
    },
    name="both",
)


@share(8, quick=5)
@given(events)
def test_states_of_another_source_change_nothing(batch: list[dict[str, Any]]) -> None:
    """Every measure of a row answers as without the other source's events there, which are in the same keys and windows."""
    folded = fold(batch)
    others = View(source=OTHERS, keys=VIEW.keys, window=VIEW.window, measures={"others": count()})
    beside = partial(others, table(batch, source=OTHERS), Ranges.of({("others", 0): (0, len(batch))}))
    united = merge(BOTH, [Partial(roll(BOTH, part.states), part.ranges) for part in (beside, folded, beside_again(beside))])
    names = folded.states.schema.names
    assert_same(Partial(united.states.select(names), folded.ranges, folded.rejected), folded)
    counted = {row["others"] for row in present(BOTH, united).to_pylist()}
    assert counted <= {2 * number for number in range(1, len(batch) + 1)}
    alone = present(BOTH, Partial(roll(BOTH, beside.states))).to_pylist()
    assert {row["count"] for row in alone} <= {0}
    assert {row["total_i"] for row in alone} <= {None}


def beside_again(part: Partial) -> Partial:
    return replace(part, ranges=Ranges.of({("others", 1): (0, 1)}))
