"""A measure's filter: other events are neither counted nor looked at; a filter that is none is refused where it stands."""

import pytest

from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.fingerprint import fingerprint
from tandem.views.measures import Measure, approx_quantiles, bool_and, count, mean, total, variance
from tandem.views.view import View, bind
from tests.samples import SAMPLES
from tests.views.kernel.test_fold_edges import answers, folded


def view(measure: Measure) -> View:
    return View(SAMPLES, measures={"m": measure, "n": count()})


def test_an_input_is_evaluated_only_where_the_filter_holds() -> None:
    guarded = view(mean("10 // i", filter="i <> 0"))
    all_time = {"window_start": None, "window_end": None, "window_state": "open"}
    assert answers(guarded, {"i": 0}, {"i": 5}, {"i": None}) == [{**all_time, "m": 2.0, "n": 3}]
    assert folded(view(mean("10 // i")), {"i": 0}).rejected == {"expression": 1}
    assert folded(view(count(filter="10 // i > 1")), {"i": 0}).rejected == {"expression": 1}


def test_nothing_that_passes_is_nothing_counted() -> None:
    (row,) = answers(view(count(filter="flag")), {"flag": None}, {"flag": False})
    assert (row["m"], row["n"]) == (0, 2)
    (row,) = answers(view(total("i", filter="flag")), {"i": 1})
    assert row["m"] is None


@pytest.mark.parametrize(
    ("measure", "sentence"),
    [
        (count(filter="i"), "measure 'm': 'i' is of type BIGINT; a filter is BOOLEAN"),
        (total("i", filter="i >"), "measure 'm': 'i >' is not SQL"),
        (total("nothing", filter="flag"), "measure 'm': 'nothing' names a field 'nothing' that Sample does not have"),
        (total("s", filter="flag"), "measure 'm': 's' is of type VARCHAR; this measure takes numbers"),
        (bool_and("i"), "measure 'm': 'i' is of type BIGINT; this measure takes conditions"),
        (count(filter="random() < 0.5"), "measure 'm': 'random() < 0.5' is refused"),
    ],
)
def test_what_is_no_filter_is_refused_where_it_stands(measure: Measure, sentence: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        bind(view(measure))
    assert sentence in str(raised.value)


def test_a_filter_is_part_of_the_meaning_and_its_spelling_is_not() -> None:
    meaning = fingerprint(view(variance("i", filter="flag AND i > 0")))
    assert fingerprint(view(variance("i", filter="flag and (i>0) -- so"))) == meaning
    others = (variance("i"), variance("i", filter="flag"), variance("d", filter="flag AND i > 0"))
    assert meaning not in {fingerprint(view(measure)) for measure in others}
    assert fingerprint(view(variance("i", filter="flag AND i > 0", population=True))) != meaning
    assert fingerprint(view(approx_quantiles("i", (0.5,), filter="flag"))) != fingerprint(
        view(approx_quantiles("i", (0.9,), filter="flag"))
    )
