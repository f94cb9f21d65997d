"""Why a batch found otherwise than what was served, where that is known.

| cause         | when                                                                                                   |
| ------------- | ------------------------------------------------------------------------------------------------------ |
| `none`        | all answers are the same, or within the tolerance that the view declares                               |
| `sketch`      | an estimate within the error that its sketch states: merges of KLL are random; `approx_top_k` of           |
|               | many values depends on the order of merges, and is not measured                                        |
| `float order` | floats that were added up in another order                                                             |
| `duplicate`   | copies that came beyond the dedup window, or that are not the same, of which each layer may count another,  |
|               | and no more answers differ than these can have changed                                                 |
| `compaction`  | anything else of a source with `compacted=True`: the topic lost events between serving and archiving   |
| `unexplained` | anything else: one of the two is wrong                                                                 |

The first that fits, from the top. HyperLogLog and theta sketches are the same for every split, and are excused only within the
error that they state, as quantiles are. A tolerance that a view declares is a promise: beyond it nothing is excused but by
copies and compaction.
"""

from typing import Final, Literal

from views.measures.count import Count
from views.measures.filtered import Filtered
from views.measures.measure import Approximation
from views.verify.compare import MeasureDifference
from views.view import View, approximations, bind

Cause = Literal["none", "sketch", "float order", "duplicate", "compaction", "unexplained"]

_ESTIMATES: Final = ("hll", "theta", "kll", "frequent")
_MEASURED: Final = ("hll", "theta", "kll")
"""Estimates that are told apart by the error that they state."""


def cause(view: View, difference: MeasureDifference, *, copies: int) -> Cause:
    """The cause of a measure's difference; `copies` is how many events, at most, only one of the two counts because of copies."""
    name = difference.measure
    approximation = approximations(view).get(name)
    if not difference.unequal or (name in view.tolerances and not difference.differ):
        return "none"
    certain = name in view.tolerances or (approximation is not None and approximation.kind in _MEASURED)
    if approximation is not None and not (certain and difference.differ):
        return _of(view, name, approximation)
    if _made(view, difference, copies):
        return "duplicate"
    return "compaction" if view.source.compacted else "unexplained"


def _of(view: View, name: str, approximation: Approximation) -> Literal["sketch", "float order"]:
    if approximation.kind != "derived":
        return "sketch" if approximation.kind in _ESTIMATES else "float order"
    known = approximations(view)
    reads = next(one.reads for one in bind(view).measures if one.name == name)
    return "sketch" if any(known[read].kind in _ESTIMATES for read in reads if read in known) else "float order"


def _made(view: View, difference: MeasureDifference, copies: int) -> bool:
    """Whether this many events can have made the difference: each changes its own answers, and a count by one."""
    most = _answers_of_an_event(view)
    if most is None or not copies:
        return copies > 0
    measure = view.measures[difference.measure]
    counts = isinstance(measure.measure if isinstance(measure, Filtered) else measure, Count)
    return (difference.absolute if counts else difference.differ) <= copies * most


def _answers_of_an_event(view: View) -> int | None:
    """In how many answers one event can be; None where it can also change windows of others, or become any number of rows."""
    placement = bind(view).placement
    if view.source.prepare is not None or not placement.independent:
        return None
    return 1 if placement.timing.slice is None else placement.timing.reach // placement.timing.slice + 1
