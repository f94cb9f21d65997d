"""Why a row of the live release differs from the same row of another release, as far as that can be known.

| reason                | when                                                                                            |
| --------------------- | ----------------------------------------------------------------------------------------------- |
| `new definition`      | the view, or the measure that differs, has another meaning                                       |
| `late events`         | events after the position that both have counted: only one of both counts them so far            |
| `repaired duplicates` | one of both counts a duplicate that the other has removed, or another one of different duplicates |
| `other records`       | one of both has read records that the other did not read, as over a gap                         |
| `sketch`, `float order`, `compaction`, `unexplained` | a measure of the same meaning differs: see tandem.views.verify.cause |

Two reasons exclude each other for a row only if figures say so: no event of the row is in the speed layer of either side, or
both layers dropped the same duplicates. Otherwise the row has every reason that is possible, and is not `certain`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, get_args

import pyarrow as pa

from tandem.views.fingerprint.additive import same_events, with_measures
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.verify.cause import Cause, cause
from tandem.views.verify.compare import difference, far_apart, pairs, tolerance
from tandem.views.verify.row_diff import RowDifference
from tandem.views.view import View, answer_schema, bind, group_columns

DiffReason = Literal[
    "new definition",
    "late events",
    "repaired duplicates",
    "other records",
    "sketch",
    "float order",
    "late table",
    "compaction",
    "unexplained",
]

_ORDER: Final[tuple[DiffReason, ...]] = get_args(DiffReason)
_OF_CAUSE: Final[Mapping[Cause, DiffReason]] = {
    "duplicate": "repaired duplicates",
    "sketch": "sketch",
    "float order": "float order",
    "table": "late table",
    "compaction": "compaction",
    "unexplained": "unexplained",
    "none": "unexplained",
}


class RowReasons(NamedTuple):
    """The reasons of a row, each once: all of them if that is `certain`, else at least one of them."""

    reasons: tuple[DiffReason, ...]
    certain: bool

    def __str__(self) -> str:
        return (" and " if self.certain else " or ").join(self.reasons)


@dataclass(frozen=True)
class DiffGrounds:
    """What can make rows of a view differ, at a position that both releases have counted.

    * `redefined`: the two definitions of the view have different meanings.
    * `causes`: of the measures with the same meaning on both sides, the cause if they differ.
    * `copies`: the most events that only one side counts because of duplicates.
    * `same_records`: false if the sides have certainly processed different records.
    """

    redefined: bool
    causes: Mapping[str, Cause] = field(hash=False)
    copies: int
    same_records: bool

    def of(self, row: RowDifference, *, touched: bool) -> RowReasons:
        """The reasons of a row; `touched`: the speed layer of either side has counted events of it."""
        duplicates = touched and self.copies > 0
        if not self.same_records:
            return _possible(self.redefined and "new definition", duplicates and "repaired duplicates", "other records")
        same = [name for name in row.measures if name in self.causes]
        # Whether a row exists is decided by what its measures of the same meaning share.
        changed = [] if row.only and same else [name for name in row.measures if name not in self.causes]
        reasons = {_OF_CAUSE[self.causes[name]] for name in same}
        if "repaired duplicates" in reasons and not duplicates:
            reasons = reasons - {"repaired duplicates"} | {"unexplained"}
        if not changed:
            return _sort(reasons)
        return (
            _sort({*reasons, "new definition", "repaired duplicates"}, certain=False)
            if duplicates
            else _sort({*reasons, "new definition"})
        )

    def later(self, row: RowDifference, before: tuple[RowDifference, RowReasons] | None, *, duplicates: bool) -> RowReasons:
        """The reasons of a row of newer answers, of which one side may count more events than the other.

        `before` is the row at the common position with its reasons, None if it did not differ there; `duplicates`: either side
        dropped some after that position.
        """
        if before is None:
            return _possible(self.redefined and "new definition", "late events", duplicates and "repaired duplicates")
        then, reasons = before
        if then == row:
            return reasons
        return _sort({*reasons.reasons, "late events"}, certain=reasons.certain and not self.redefined and not duplicates)


def grounds(
    old: View,
    new: View,
    answers: tuple[pa.Table, pa.Table],
    rejected: tuple[Mapping[str, int], Mapping[str, int]],
    *,
    copies: int,
    same_records: bool,
) -> DiffGrounds:
    """The grounds of a view; `answers` are those of both sides as compare.answers returns them, `rejected` what each rejected."""
    same = same_meaning(old, new, rejected)
    causes = {}
    if same:
        paired, schema = pairs(group_columns(new), *answers), answer_schema(new)
        for measure in bind(new).measures:
            if (name := measure.name) in same:
                differs = difference(paired, schema.field(name), tolerance(new, name), far_apart(new, measure))
                causes[name] = cause(new, differs, copies=copies)
    return DiffGrounds(fingerprint(old) != fingerprint(new), causes, copies, same_records)


def same_meaning(old: View, new: View, rejected: tuple[Mapping[str, int], Mapping[str, int]]) -> frozenset[str]:
    """The measures that mean the same on both sides: the same number of the same events, by the same keys and windows."""
    if fingerprint(old) == fingerprint(new):
        return frozenset(new.measures)
    stored = [{each.name for each in bind(view).measures if each.derived is None} for view in (old, new)]
    if not same_events(*rejected):
        return frozenset()
    return frozenset(
        name
        for name in stored[0] & stored[1]
        if fingerprint(with_measures(old, [name])) == fingerprint(with_measures(new, [name]))
    )


def _possible(*reasons: DiffReason | Literal[False]) -> RowReasons:
    possible = {reason for reason in reasons if reason}
    return _sort(possible, certain=len(possible) == 1)


def _sort(reasons: set[DiffReason], *, certain: bool = True) -> RowReasons:
    return RowReasons(tuple(reason for reason in _ORDER if reason in reasons), certain)
