"""Gates: a release goes live only if its answers differ from the live ones within these conditions.

| figure         | of a changed view                                                          |
| -------------- | -------------------------------------------------------------------------- |
| `changed_keys` | rows of both releases that differ in a measure, as a share of those rows    |
| `only_old`     | rows that only the live release has, as a share of all rows                |
| `only_new`     | rows that only the new release has, as a share of all rows                 |
| `max_error`    | largest symmetric error of a measure (tandem.views.verify.compare), from 0 to 200 %      |
| `mean_error`   | largest of the measures' mean symmetric errors                             |

Every view that changed must pass every condition; a view whose keys or windows changed has no rows of both.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tandem.ledger.publish.diffs import ReleaseDiff
from tandem.views.errors import TandemError, listed

_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {"<": operator.lt, "<=": operator.le}
_FORM: Final = re.compile(r"\s*(\w+)\s*(<=?)\s*(\d+(?:\.\d+)?)\s*(%?)\s*")


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _worst(view: Mapping[str, Any], figure: str) -> float:
    return max((float(measure[figure]) for measure in view["measures"].values()), default=0.0)


_FIGURES: Final[Mapping[str, Callable[[Mapping[str, Any]], float]]] = {
    "changed_keys": lambda view: _share(view["changed"], view["matched"]),
    "only_old": lambda view: _share(view["only_old"], _rows(view)),
    "only_new": lambda view: _share(view["only_new"], _rows(view)),
    "max_error": lambda view: _worst(view, "max_error"),
    "mean_error": lambda view: _worst(view, "mean_error"),
}


class BadGate(TandemError, code="gate-invalid"):
    """The text of a gate is invalid."""


class Shut(TandemError, code="gate-closed"):
    """The release does not pass the gate; the live release stays."""


@dataclass(frozen=True)
class PromotionGate:
    """A figure and its upper bound, a fraction of 1."""

    figure: str
    operator: str
    bound: float

    def __str__(self) -> str:
        return f"{self.figure} {self.operator} {self.bound:.4%}"


def parse(gate: str) -> tuple[PromotionGate, ...]:
    """Conditions from text such as `changed_keys < 1%, max_error <= 0.05`. Raises BadGate."""
    found = []
    for part in gate.split(","):
        match = _FORM.fullmatch(part)
        if match is None:
            raise BadGate(f"--gate {gate!r}: invalid condition {part.strip()!r}; example: 'changed_keys < 1%'")
        figure, sign, number, percent = match.groups()
        if figure not in _FIGURES:
            raise BadGate(f"--gate {gate!r}: unknown figure {figure!r}; figures: {listed(figure, _FIGURES)}")
        found.append(PromotionGate(figure, sign, float(number) / (100 if percent else 1)))
    return tuple(found)


def refuse_shut(conditions: tuple[PromotionGate, ...], diff: ReleaseDiff | None) -> None:
    """Raise Shut unless every changed view passes; the error names the first view and condition.

    A release or view that was not compared does not pass.
    """
    if diff is None:
        raise Shut("the gate is closed: the release was never compared with the live one; run `tandem apply`")
    for name, view in diff.views.items():
        if view["status"] != "changed":
            continue
        if not _rows(view):
            raise Shut(f"the gate is closed: view {name!r} has no rows below the cut to compare; run `tandem recompute` first")
        for condition in conditions:
            value = _FIGURES[condition.figure](view)
            if not _OPERATORS[condition.operator](value, condition.bound):
                raise Shut(
                    f"the gate is closed: view {name!r} has {condition.figure} {value:.4%}, but the gate requires {condition}"
                )


def _rows(view: Mapping[str, Any]) -> int:
    return int(view["matched"] + view["only_old"] + view["only_new"])
