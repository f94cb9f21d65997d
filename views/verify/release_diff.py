"""How the answers of two meanings of a view differ over the same events: the same keys, other keys, other numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.verify.compare import Far, MeasureDifference, answers, beyond, difference, far_apart, pairs, plus, tolerance
from tandem.views.view import View, answer_schema, bind, group_columns


@dataclass(frozen=True)
class Diff:
    """How the rows of two meanings of a view differ.

    * `matched`: rows whose keys and window are on both sides; `changed`: those of them that differ in any measure.
    * `only_old`, `only_new`: rows on one side only.
    * `measures`: compares the matched rows, for the measures of both, each within the tolerance of the new one.
    * `apart`: true if keys or kind of window differ, so that no row can be matched.

    `add` adds the diffs of disjoint sets of keys.
    """

    matched: int = 0
    changed: int = 0
    only_old: int = 0
    only_new: int = 0
    measures: Mapping[str, MeasureDifference] = field(default_factory=dict, hash=False)
    apart: bool = False

    @property
    def rows(self) -> int:
        """All rows of both sides."""
        return self.matched + self.only_old + self.only_new


def diff(old: View, new: View, before: pa.Table, after: pa.Table) -> Diff:
    """The diff of the merged states of two meanings of a view over the same events."""
    return diff_of_answers(old, new, answers(old, before), answers(new, after))


def diff_of_answers(old: View, new: View, ours: pa.Table, theirs: pa.Table) -> Diff:
    """The same of two tables as compare.answers returns them."""
    if not comparable(old, new):
        return Diff(0, 0, ours.num_rows, theirs.num_rows, apart=True)
    paired, shared = pairs(group_columns(new), ours, theirs), SharedMeasures.of(old, new)
    matched = paired.matched()
    rows, schema = matched.sides[0].num_rows, answer_schema(new)
    differing = [beyond(matched, name, *allowed) for name, allowed in shared.same_type.items()]
    # A measure of another type differs in every row.
    changed = rows if shared.other_type else pc.sum(reduce(pc.or_, differing)).as_py() or 0 if differing else 0
    only = [pc.sum(pc.invert(side)).as_py() or 0 for side in reversed(paired.there)]
    measures = {name: difference(matched, schema.field(name), *allowed) for name, allowed in shared.same_type.items()}
    return Diff(rows, changed, only[0], only[1], measures)


class SharedMeasures(NamedTuple):
    """The measures of two meanings of a view: those of one type, with what decides whether two values differ; the others."""

    same_type: Mapping[str, tuple[float, Far | None]]
    other_type: tuple[str, ...]

    @classmethod
    def of(cls, old: View, new: View) -> Self:
        """Those that both have by name; the tolerance is that of the new meaning."""
        schemas, names = [answer_schema(view) for view in (old, new)], [name for name in new.measures if name in old.measures]
        same = [name for name in names if schemas[0].field(name).type == schemas[1].field(name).type]
        return cls(
            {name: (tolerance(new, name), _far(old, new, name)) for name in same},
            tuple(name for name in names if name not in same),
        )


def _far(old: View, new: View, measure: str) -> Far | None:
    """Sketches of one kind are compared themselves."""
    one, other = (next(each for each in bind(view).measures if each.name == measure) for view in (old, new))
    alike = (type(one.aggregate), one.aggregate.states) == (type(other.aggregate), other.aggregate.states)
    return far_apart(new, other) if alike else None


def comparable(old: View, new: View) -> bool:
    """Whether rows of both can match: they have the same keys, of the same types, and the same kind of window."""
    groups = [[answer_schema(view).field(name).remove_metadata() for name in group_columns(view)] for view in (old, new)]
    return groups[0] == groups[1]


def to_json(found: Diff) -> dict[str, Any]:
    """A diff as a JSON object: largest errors are absolute, mean ones symmetric (see compare), of all matched rows or of those
    that differ.
    """
    return {
        "matched": found.matched,
        "changed": found.changed,
        "only_old": found.only_old,
        "only_new": found.only_new,
        "comparable": not found.apart,
        "measures": {
            name: {
                "differ": one.differ,
                "largest": one.largest,
                "max_error": max((example.symmetric for example in one.examples), default=0.0),
                "mean_error": one.smape,
                "largest_of_differing": one.furthest,
                "mean_error_of_differing": one.apart,
                "examples": [{"row": dict(each.row), "old": each.served, "new": each.found} for each in one.examples],
            }
            for name, one in found.measures.items()
        },
    }


def add(one: Diff, other: Diff) -> Diff:
    """The diffs of disjoint sets of keys as one."""
    if not one.rows:
        return other
    if not other.rows:
        return one
    return replace(
        one,
        matched=one.matched + other.matched,
        changed=one.changed + other.changed,
        only_old=one.only_old + other.only_old,
        only_new=one.only_new + other.only_new,
        measures={name: plus(one.measures[name], other.measures[name]) for name in one.measures},
    )
