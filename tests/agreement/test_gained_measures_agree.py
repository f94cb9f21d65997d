"""New measures that are folded separately, next to the stored states of the others, equal the whole view's states."""

from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tandem.views.fingerprint.additive import Apart, joined, same_events, with_measures
from tandem.views.kernel.kernel import Partial, merge, partial, settle
from tandem.views.measures import count, derived, maximum, total
from tandem.views.source.offset_ranges import Ranges
from tandem.views.view import View
from tests.agreement.drawn import drawn, logs
from tests.agreement.test_layers_agree import answered, folds, vector
from tests.agreement.windows import WINDOWS
from tests.samples import EPOCH, SAMPLES, cases, share, table

LABELLED = View(
    SAMPLES,
    keys={"s": "s"},
    measures={"n": count(), "most": maximum("i"), "each": derived("most / n"), "twice": derived("most * 2")},
    docs={"s": "Which.", "n": "How many.", "most": "The largest.", "twice": "Of it."},
    units={"most": "m"},
    tolerances={"each": 0.1},
    name="labelled",
)


@pytest.mark.parametrize("kind", WINDOWS)
@share(20, quick=cases(3, bug=5, longer=5))
@given(st.data())
def test_states_folded_apart_are_the_states_of_one_fold(kind: str, data: st.DataObject) -> None:
    log = data.draw(logs(SAMPLES), label="log")
    said = drawn(data, kind, SAMPLES)
    view = said.view
    new = data.draw(st.sets(st.sampled_from(sorted(view.measures))), label="new")
    whole = vector(dict.fromkeys(log, 0), {partition: len(events) for partition, events in log.items()})

    def folded(of: View) -> Partial:
        return merge(of, folds(of, log, [whole], [whole]))

    found, there, added = (folded(of) for of in (view, with_measures(view, view.measures.keys() - new), with_measures(view, new)))
    if not same_events(there.rejected, added.rejected):
        event("a measure rejects an event")
        return
    assert found.rejected == there.rejected
    sides = ((with_measures(view, view.measures.keys() - new), there), (with_measures(view, new), added))
    states = joined(view, *(settle(of, side.states) for of, side in sides))
    answers, _ = said.oracle(log)
    assert answered(view, Partial(states)) == answers


def test_an_equal_number_of_rejected_events_does_not_mean_the_same_events() -> None:
    assert same_events({}, {})
    assert same_events({"prepare": 2}, {"prepare": 2})
    assert not same_events({"prepare": 2}, {"prepare": 3})
    for reason in ("expression", "not_finite", "out_of_range"):
        assert not same_events({reason: 1}, {reason: 1})
        assert not same_events({}, {reason: 1})


def test_a_derived_measure_needs_no_states() -> None:
    new = with_measures(LABELLED, ("each", "twice"))
    assert (list(new.measures), new.docs, new.units, new.tolerances) == (["n"], {"s": "Which.", "n": "How many."}, {}, {})
    assert list(with_measures(LABELLED, ("n", "most", "each")).measures) == ["n", "most"]


def test_measures_with_rows_of_different_events_are_refused() -> None:
    view = View(SAMPLES, keys={"s": "s"}, measures={"n": count(), "sum": total("i")}, name="v")

    def folded(name: str, *texts: str | None) -> pa.Table:
        events = table([{"at": EPOCH + timedelta(seconds=n), "s": text, "i": n} for n, text in enumerate(texts)])
        return partial(with_measures(view, (name,)), events, Ranges(())).states

    assert joined(view, folded("n", "a", None), folded("sum", None, "a")).num_rows == 2
    for there, new in ((("a", "b"), ("a",)), (("a",), ("a", "b")), (("a",), ("b",)), ((), ("a",))):
        with pytest.raises(Apart, match="view 'v': of "):
            joined(view, folded("n", *there), folded("sum", *new))
