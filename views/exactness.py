"""How exact a value is, and why. Every program, route, page and command uses this module's labels and sentences.

The reasons of a value are the union of three: those of all rows of the answer, those of its row, and those of its column. No
reason means exact.

| label                    | what may be wrong with the value                                                             |
| ------------------------ | -------------------------------------------------------------------------------------------- |
| `exact`                  | nothing                                                                                      |
| `exact_unless_duplicate` | nothing, unless the log has a duplicate that the speed layer could not detect                |
| `floating_point`         | the last digits: doubles are added up in no fixed order, or a derived value is rounded       |
| `estimate`               | as much as its sketch states                                                                 |
| `outdated`               | it may be of a version of a table's row that came before another one                         |
| `incomplete`             | it lacks events that the log lost                                                            |
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Literal, get_args

from tandem.views.instant import utc_text
from tandem.views.measures.measure import Approximation, Rounding
from tandem.views.view import View, bind

Label = Literal["exact", "exact_unless_duplicate", "floating_point", "estimate", "outdated", "incomplete"]
"""The labels, from the strongest to the weakest."""

Name = Literal[
    "late_duplicate",
    "conflicting_duplicate",
    "late_table",
    "order_of_addition",
    "rounding",
    "estimate",
    "derived",
    "gap",
    "compaction",
]
"""Why a value is not exact; a row lists its own reasons in MARK."""

MARK: Final = "_exactness"
"""The field of a row with the names of its own reasons, absent if it has none. No key or measure begins with _."""

COUNTS: Final = frozenset({"repaired", "dropped", "offsets", "corrections"})
"""Figures that count events of the whole view or source."""

_ORDER: Final[tuple[Label, ...]] = get_args(Label)


@dataclass(frozen=True)
class Reason:
    """A reason why a value is not exact: `says` is for people, `figures` are for programs.

    `counted` is the part of `says` that counts events of the whole view or source, and COUNTS are the figures that do.
    """

    name: Name
    label: Label
    says: str
    figures: Mapping[str, Any] = field(default_factory=dict, hash=False)
    counted: str = ""

    def to_json(self) -> dict[str, Any]:
        """A JSON object: name, label and words, then the figures."""
        return {"reason": self.name, "label": self.label, "says": self.says, **self.figures}

    def without_counts(self) -> "Reason":
        """The same for a caller who may see only some rows; figures that count all rows are None."""
        figures = {name: None if name in COUNTS else value for name, value in self.figures.items()}
        return replace(self, says=self.says.replace(self.counted, ""), figures=figures, counted="")


@dataclass(frozen=True)
class Exactness:
    """The reasons of an answer: of `every` row, those of the `marked` rows, and by measure those of `columns`.

    A row is marked if MARK is one of its fields. A measure without reasons is not in `columns`; `whole` says that some is not.
    """

    every: tuple[Reason, ...] = ()
    marked: tuple[Reason, ...] = ()
    columns: Mapping[str, tuple[Reason, ...]] = field(default_factory=dict, hash=False)
    whole: bool = True

    @property
    def label(self) -> Label:
        """The label of the weakest value."""
        return weakest([*self.every, *self.marked, *(reason for column in self.columns.values() for reason in column)])

    @property
    def rows(self) -> Label | None:
        """The label of the weakest row over measures without reasons; None if all measures have some."""
        return weakest([*self.every, *self.marked]) if self.whole else None

    @property
    def marks(self) -> list[Name]:
        """The names that MARK has in a marked row."""
        return [reason.name for reason in self.marked]

    @property
    def says(self) -> str:
        """The reasons in one line for people."""
        return "; ".join(self.lines())

    def lines(self) -> list[str]:
        """The sentences about the rows, then about each column that is not exact."""
        rows = [reason.says for reason in (*self.every, *self.marked)]
        columns = [f"{name}: {'; '.join(reason.says for reason in reasons)}" for name, reasons in self.columns.items()]
        return [*(rows or (["exact"] if self.whole else [])), *columns]

    def of(self, column: str, *, marked: bool) -> Label:
        """The label of the value of a column in a row."""
        return weakest([*self.every, *(self.marked if marked else ()), *self.columns.get(column, ())])

    def unmarked(self) -> "Exactness":
        """The reasons of the same answer without its marked rows."""
        return replace(self, marked=()) if self.marked else self

    def without_counts(self) -> "Exactness":
        """The same for a caller who may see only some rows."""
        every, marked = (tuple(reason.without_counts() for reason in reasons) for reasons in (self.every, self.marked))
        return replace(self, every=every, marked=marked)

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return {
            "label": self.label,
            "rows": self.rows,
            "says": self.says,
            "every": [reason.to_json() for reason in self.every],
            "marked": [reason.to_json() for reason in self.marked],
            "columns": {name: [reason.to_json() for reason in reasons] for name, reasons in self.columns.items()},
        }


def weakest(reasons: Iterable[Reason]) -> Label:
    """The label of a value with these reasons."""
    return max((reason.label for reason in reasons), key=_ORDER.index, default="exact")


def together(views: Mapping[str, Exactness]) -> dict[str, Any]:
    """What is said of values that are computed from several views, by name: the weakest label, and each view's words."""
    label = max((one.label for one in views.values()), key=_ORDER.index, default="exact")
    inexact = [f"{name}: {one.says}" for name, one in views.items() if one.label != "exact"]
    return {"label": label, "says": "; ".join(inexact) or "exact"}


def late_duplicate(dedup_window: timedelta, repaired: int | None, since: datetime | None = None) -> Reason:
    """The reason of rows that realtime states are part of, if the source has an identity: a duplicate may have come too late.

    `repaired` is the number of such duplicates that the last recompute found, None if unknown. Duplicates of events counted
    before `since` are not detected, either, because memory was too small; None if it was not.
    """
    found = "" if repaired is None else f" (the last recompute found {repaired})"
    told = None if since is None else utc_text(since)
    unknown = "" if told is None else f", or of an event counted before {told}: speed.identities_mb is too small for dedup_window"
    return Reason(
        "late_duplicate",
        "exact_unless_duplicate",
        f"exact unless a duplicate arrived later than {span(dedup_window)} after the first copy{found}{unknown}",
        {
            "dedup_window_s": dedup_window.total_seconds(),
            "repaired": repaired,
            "identities_since": told,
        },
        counted=found,
    )


def conflicting_duplicate(dropped: int) -> Reason:
    """The reason of all rows if duplicates of an event may differ and are in several partitions of the log.

    Realtime views keep the duplicate that they read first, a recompute keeps the first in log order. `dropped` counts those that
    realtime views dropped.
    """
    counted = f" ({dropped} were dropped)"
    return Reason(
        "conflicting_duplicate",
        "exact_unless_duplicate",
        f"exact unless a recompute keeps another copy of an event than was counted{counted}",
        {"dropped": dropped},
        counted,
    )


def late_table(corrections: int) -> Reason:
    """The reason of rows whose events may find other versions in a table than they found when they were counted.

    `corrections` is the number of versions that came since.
    """
    counted = f" ({corrections} so far)"
    return Reason(
        "late_table",
        "outdated",
        f"outdated where versions of a table came after events had looked it up{counted}; the next recompute looks up again",
        {"corrections": corrections},
        counted,
    )


def gap(name: str, offsets: int, reason: str) -> Reason:
    """The reason of all rows if the log lost offsets of the counted range."""
    counted = f" lost {offsets} offsets ({reason})"
    return Reason("gap", "incomplete", f"incomplete: gap {name}{counted}", {"name": name, "offsets": offsets}, counted)


COMPACTION: Final = Reason(
    "compaction", "incomplete", "incomplete: the topic is compacted, so events that newer ones replaced may be missing"
)


@lru_cache(maxsize=1024)
def of_measures(view: View) -> Mapping[str, tuple[Reason, ...]]:
    """The reasons of each measure that is not exact; a derived measure has those of the measures that it reads, or is rounded."""
    bound = bind(view).measures
    known = {one.name: one.aggregate.approximate for one in bound if one.derived is None}
    own = {name: (of_approximation(how),) for name, how in known.items() if how is not None}
    read = {one.name: {name: own[name] for name in one.reads if name in own} for one in bound if one.derived is not None}
    rounded = {one.name: (of_rounding(how),) for one in bound if (how := one.aggregate.rounding) is not None}
    found = own | rounded | {name: (_derived(reasons),) for name, reasons in read.items() if reasons}
    return {one.name: found[one.name] for one in bound if one.name in found}


def of_approximation(how: Approximation) -> Reason:
    """Why a measure's answers are not exact."""
    figures = {"kind": how.kind, "error": how.error, "confidence": how.confidence}
    if how.error is None:
        if how.kind == "derived":
            return Reason("derived", "estimate", "computed from measures that are not exact")
        return Reason(
            "order_of_addition", "floating_point", "floating-point: the last digits depend on the order of addition", figures
        )
    of = {"kll": " of the rank", "frequent": " of the number of values"}.get(how.kind, "")
    at = "" if how.confidence is None else f" at {100 * how.confidence:.3g} % confidence"
    return Reason("estimate", "estimate", f"estimate, \u00b1{100 * how.error:.3g} %{of}{at}", figures)


def of_rounding(how: Rounding) -> Reason:
    """Why a derived measure of exact ones is not exact."""
    says = "floating-point: computed in doubles"
    if how.error is not None:
        says = f"floating-point: rounded to the nearest double, \u00b1{100 * how.error:.3g} %"
    return Reason("rounding", "floating_point", says, {"error": how.error})


def span(length: timedelta) -> str:
    """A length of time in the largest unit that divides it: 90 s, 10 min, 36 h, 7 d."""
    seconds = length.total_seconds()
    units = ((86400, "d"), (3600, "h"), (60, "min"))
    size, unit = next(((size, unit) for size, unit in units if seconds >= size and seconds % size == 0), (1, "s"))
    return f"{seconds / size:g} {unit}"


def _derived(read: Mapping[str, Sequence[Reason]]) -> Reason:
    label = weakest(reason for reasons in read.values() for reason in reasons)
    kind = {"estimate": "estimate", "floating_point": "floating-point"}[label]
    return Reason("derived", label, f"{kind}: computed from {', '.join(read)}", {"of": list(read)})
