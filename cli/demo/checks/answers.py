"""Compares every merged answer of every exact measure with the generator's expected answer."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from tandem.views import exactness
from tandem.views.errors import TandemError
from tandem.views.exactness import MARK
from tandem.views.view import View, approximations
from tandem.views.windows.placement import WINDOW_STATE

Row = Mapping[str, Any]
SHOWN = 5
"""Examples of what differs."""
_OUTDATED: Final[exactness.Name] = "late_table"


class NoTruth(TandemError, code="demo-unchecked"):
    """The generator has no expected answer for a measure or view, so it cannot be checked."""


@dataclass(frozen=True)
class DemoCheck:
    """The number of compared answers, how many of them differ, and the first of those; an answer is one measure of one row."""

    least: ClassVar[int] = 1
    name: str
    answers: int
    differ: int
    examples: Sequence[Mapping[str, Any]] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether there were answers and all of them agree."""
        return self.answers >= self.least and self.differ == 0

    def to_json(self) -> dict[str, Any]:
        """The check as it is in the demo's document."""
        return {"name": self.name, "answers": self.answers, "differ": self.differ, "examples": list(self.examples)}


@dataclass(frozen=True)
class SinkCheck(DemoCheck):
    """As DemoCheck, for what a sink has stored in its `target`, a table or a topic; no row may meet its condition."""

    least: ClassVar[int] = 0
    target: str = ""

    def to_json(self) -> dict[str, Any]:
        """The check as it is in the demo's document."""
        return {**super().to_json(), "target": self.target}


def compare(
    name: str, views: Mapping[str, View], truth: Mapping[str, Sequence[Row]], found: Mapping[str, Sequence[Row]]
) -> DemoCheck:
    """Compare all rows of all views, on both sides: a row that only one side has differs, and so does a row that occurs twice.

    Rows that are outdated by a table, as they say themselves, are left out.

    Raises NoTruth if the expected answers lack a view or an exact measure.
    """
    answers = differ = 0
    examples: list[Mapping[str, Any]] = []
    for view_name, view in views.items():
        exact = _exact(view)
        expected = _answers(view, truth.get(view_name), exact)
        given = _answers(view, found[view_name], exact)
        outdated = {
            place for place, _ in _cells(view, [row for row in found[view_name] if _OUTDATED in row.get(MARK, ())], exact)
        }
        places = (expected.keys() | given.keys()) - outdated
        answers += len(places)
        wrong = sorted(place for place in places if expected.get(place) != given.get(place))
        differ += len(wrong)
        for row, measure in wrong[: SHOWN - len(examples)]:
            sides = {"truth": expected.get((row, measure)), "answer": given.get((row, measure))}
            shown = {side: values[0] if len(values) == 1 else values for side, values in sides.items() if values is not None}
            examples.append({"view": view_name, "row": json.loads(row), "measure": measure, **shown})
    return DemoCheck(name, answers, differ, examples)


def _exact(view: View) -> list[str]:
    approximate = approximations(view)
    return [measure for measure in view.measures if measure not in approximate]


def _answers(view: View, rows: Sequence[Row] | None, measures: Sequence[str]) -> dict[tuple[str, str], list[Any]]:
    """The values by row (as JSON without its measures) and measure: one value each, unless a row occurs twice."""
    if rows is None:
        raise NoTruth(f"the generator has no expected answers for view '{view.name}', so the view cannot be checked")
    answers: dict[tuple[str, str], list[Any]] = {}
    for place, value in _cells(view, rows, measures):
        answers.setdefault(place, []).append(value)
    return answers


def _cells(view: View, rows: Sequence[Row], measures: Sequence[str]) -> Iterator[tuple[tuple[str, str], Any]]:
    for row in rows:
        # Expected answers do not depend on micro-batches, so they have no labels of windows and no reasons against exactness.
        told = {name: value for name, value in row.items() if name not in (*view.measures, WINDOW_STATE.name, MARK)}
        place = json.dumps(told, sort_keys=True)
        for measure in measures:
            if measure not in row:
                raise NoTruth(f"the generator has no expected answers for measure '{measure}' of view '{view.name}'")
            yield (place, measure), row[measure]
