"""Why a batch found otherwise than what was served, where that is known.

| cause         | when                                                                                                   |
| ------------- | ------------------------------------------------------------------------------------------------------ |
| `none`        | all answers are the same, or within the tolerance that the view declares                               |
| `sketch`      | an estimate: KLL throws dice at every merge, `frequent` of many values hangs on the order of merges    |
| `float order` | floats that were added up in another order                                                             |
| `duplicate`   | copies that came beyond the horizon, or that are not the same, of which each layer may count another   |
| `compaction`  | anything else of a source with `compacted=True`: the topic lost events between serving and archiving   |
| `unexplained` | anything else: one of the two is wrong                                                                 |

The first that fits, from the top. HyperLogLog and theta sketches are the same for every split, and are excused only within the
error that they state. A tolerance that a view declares is a promise: beyond it nothing is excused but by copies and compaction.
"""

from typing import Final, Literal

from views.compare import MeasureDifference
from views.measures.measure import Approximation
from views.view import View, approximations, bind

Cause = Literal["none", "sketch", "float order", "duplicate", "compaction", "unexplained"]

_ESTIMATES: Final = ("hll", "theta", "kll", "frequent")
_SAME_FOR_EVERY_SPLIT: Final = ("hll", "theta")


def cause(view: View, difference: MeasureDifference, *, copies: int) -> Cause:
    """The cause of a measure's difference; `copies` counts those in the range that the layers may have counted otherwise."""
    name = difference.measure
    approximation = approximations(view).get(name)
    if not difference.unequal or (name in view.tolerances and not difference.differ):
        return "none"
    certain = name in view.tolerances or (approximation is not None and approximation.kind in _SAME_FOR_EVERY_SPLIT)
    if approximation is not None and not (certain and difference.differ):
        return _of(view, name, approximation)
    if copies:
        return "duplicate"
    return "compaction" if view.source.compacted else "unexplained"


def _of(view: View, name: str, approximation: Approximation) -> Literal["sketch", "float order"]:
    if approximation.kind != "derived":
        return "sketch" if approximation.kind in _ESTIMATES else "float order"
    known = approximations(view)
    reads = next(one.reads for one in bind(view).measures if one.name == name)
    return "sketch" if any(known[read].kind in _ESTIMATES for read in reads if read in known) else "float order"
