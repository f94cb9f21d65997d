"""A measure's filter: other events are neither counted nor looked at; a filter that is none is refused where it stands."""

import pytest

from tandem.views.errors import DefinitionError
from tandem.views.measures import Measure, bool_and, count, total
from tandem.views.view import View, bind
from tests.samples import SAMPLES


def view(measure: Measure) -> View:
    return View(SAMPLES, measures={"m": measure, "n": count()})


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
