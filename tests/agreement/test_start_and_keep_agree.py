"""A source with a start and a view that keeps windows for some time: batch, speed and merged agree at every cut."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from tandem import View, all_time, calendar, hopping, session, tumbling
from tandem.ledger.publish.batch_parts import staying
from tandem.views import oracle
from tandem.views.kernel.kernel import Partial, merge, present
from tandem.views.source.log_order import with_generation
from tandem.views.source.source import events_schema
from tandem.views.start import StartPositions
from tandem.views.windows import Window
from tests.agreement.drawn import Log
from tests.agreement.test_history_and_log_agree import (
    GENERATIONS,
    MEASURES,
    SEAMS,
    START,
    partials_of,
    place,
    rows_of,
    sides_of,
)
from tests.agreement.test_layers_agree import splits, wired
from tests.samples import just

TOPIC = GENERATIONS[1]
STARTING: Final[tuple[Window, ...]] = (
    all_time(),
    tumbling(hours=3),
    hopping(timedelta(hours=4), every=timedelta(hours=2)),
    session(hours=1),
)
LEAVING: Final[tuple[Window, ...]] = (tumbling(hours=1), tumbling(hours=3), calendar("day", zone="America/Havana"))


def log_of_topic(data: st.DataObject) -> Log:
    _, log = data.draw(sides_of(SEAMS["identity"]), label="log")
    return {partition: events for partition, events in log.items() if partition[0] == TOPIC}


@just(10_000, quick=25)
@given(data=st.data())
def test_records_before_a_start_count_at_no_cut(data: st.DataObject) -> None:
    """The copies after it count, as if the log began there."""
    log = log_of_topic(data)
    firsts = {partition: data.draw(st.integers(0, len(events)), label="first") for partition, events in log.items()}
    source = replace(SEAMS["identity"], start=StartPositions.of("now", ("sales",), firsts))
    view = View(source, keys={"shop": "shop"}, window=data.draw(st.sampled_from(STARTING)), measures=MEASURES)
    partials = partials_of(view, log, splits(data, dict.fromkeys(log, 0), {key: len(log[key]) for key in log}, most=7))

    later = {event["id"]: event for partition, events in log.items() for event in events[firsts[partition] :]}
    union = pa.Table.from_pylist([place(*pair) for pair in enumerate(later.values())], events_schema(source))
    groups, _ = oracle.grouped(view, with_generation(union, GENERATIONS))
    for cut in range(len(partials) + 1):
        batch, realtime = merge(view, partials[:cut]), [wired(each) for each in partials[cut:]]
        answer = present(view, merge(view, [batch, *data.draw(st.permutations(realtime))]))
        assert not [measure for measure in oracle.compare(view, answer, groups) if measure.differ]
        assert answer.num_rows == len(groups)


@just(10_000, quick=25)
@given(data=st.data())
def test_windows_that_left_are_answered_at_no_cut(data: st.DataObject) -> None:
    """Answers with `keep` are those without it, of the windows that stay."""
    log = log_of_topic(data)
    view = View(SEAMS["identity"], keys={"shop": "shop"}, window=data.draw(st.sampled_from(LEAVING)), measures=MEASURES)
    partials = partials_of(view, log, splits(data, dict.fromkeys(log, 0), {key: len(log[key]) for key in log}, most=7))
    answer = present(view, merge(view, partials))
    kept_from = data.draw(st.sampled_from([START, *answer["window_start"].to_pylist()]), label="first window")

    def left(each: Partial) -> Partial:
        return replace(each, states=staying(each.states, kept_from))

    expected = rows_of(view, answer.filter(pc.greater_equal(answer["window_start"], kept_from)))
    for cut in range(len(partials) + 1):
        batch, realtime = left(merge(view, partials[:cut])), [left(wired(each)) for each in partials[cut:]]
        assert rows_of(view, present(view, merge(view, [batch, *data.draw(st.permutations(realtime))]))) == expected
