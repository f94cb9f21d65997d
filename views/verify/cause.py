"""The known causes of a difference between served answers and the batch's result; the first row that fits counts.

| cause         | when                                                                                                   |
| ------------- | ------------------------------------------------------------------------------------------------------ |
| `none`        | all answers are the same, or within the tolerance that the view declares                               |
| `sketch`      | an estimate within the error that its sketch states: merges of KLL are random; `approx_top_k` of       |
|               | many values depends on the order of merges, and is not measured                                        |
| `float order` | floats were added up in another order                                                                  |
| `duplicate`   | duplicates arrived after the dedup window, or have different content, and each layer may count another |
|               | one of them; and no more answers differ than these duplicates can have changed                         |
| `table`       | versions of a table came after the events that look up in it had been folded                           |
| `compaction`  | anything else of a source with `compacted=True`: the topic lost events between serving and archiving   |
| `unexplained` | anything else: one of the two is wrong                                                                 |

HyperLogLog and theta sketches are the same for every split, so they are excused only within the error that they state, as
quantiles are. A tolerance that a view declares is a promise: only duplicates and compaction excuse a larger difference.
"""

from typing import Final, Literal

from tandem.views.measures.count import Count
from tandem.views.measures.filtered import Filtered
from tandem.views.measures.measure import Approximation
from tandem.views.verify.compare import MeasureDifference
from tandem.views.view import View, approximations, bind

Cause = Literal["none", "sketch", "float order", "duplicate", "table", "compaction", "unexplained"]

_ESTIMATES: Final = ("hll", "theta", "kll", "frequent")
_MEASURED: Final = ("hll", "theta", "kll")
"""Estimates that differ only if they are further apart than the error that they state."""


def cause(view: View, difference: MeasureDifference, *, copies: int, late: bool = False) -> Cause:
    """The cause of a measure's difference; `copies`: the most events that only one of the two counts because of duplicates.

    `late` says that versions of a table came late.
    """
    name = difference.measure
    approximation = approximations(view).get(name)
    if not difference.unequal or (name in view.tolerances and not difference.differ):
        return "none"
    certain = name in view.tolerances or (approximation is not None and approximation.kind in _MEASURED)
    if approximation is not None and not (certain and difference.differ):
        return _of(view, name, approximation)
    if _made(view, difference, copies):
        return "duplicate"
    if late:
        return "table"
    return "compaction" if view.source.compacted else "unexplained"


def _of(view: View, name: str, approximation: Approximation) -> Literal["sketch", "float order"]:
    if approximation.kind != "derived":
        return "sketch" if approximation.kind in _ESTIMATES else "float order"
    known = approximations(view)
    reads = next(one.reads for one in bind(view).measures if one.name == name)
    return "sketch" if any(known[read].kind in _ESTIMATES for read in reads if read in known) else "float order"


def _made(view: View, difference: MeasureDifference, copies: int) -> bool:
    """Whether this many events can explain the difference: each changes its own answers, and a count by one."""
    most = _answers_of_an_event(view)
    if most is None or not copies:
        return copies > 0
    measure = view.measures[difference.measure]
    counts = isinstance(measure.measure if isinstance(measure, Filtered) else measure, Count)
    return (difference.absolute if counts else difference.differ) <= copies * most


def _answers_of_an_event(view: View) -> int | None:
    """The number of answers that one event can change; None if it can change other events' windows, or become many rows."""
    placement = bind(view).placement
    if view.source.prepare is not None or not placement.independent:
        return None
    return 1 if placement.timing.slice is None else placement.timing.reach // placement.timing.slice + 1
