"""The demo's checks: compares every merged answer of every exact measure with the generator's expected answer.

The tables of sinks are compared, too, read as any engine reads them, without Tandem.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from tandem.cli.command.call import Call
from tandem.ledger.log.positions import Position
from tandem.serving.changes import ChangesToken
from tandem.serving.sinks.definition import sinks_of
from tandem.serving.sinks.delta import METADATA
from tandem.views.errors import TandemError
from tandem.views.exactness import MARK
from tandem.views.kernel.rows import to_rows
from tandem.views.sinks.delta_table import SinkTable
from tandem.views.view import View, answer_schema, approximations
from tandem.views.windows.placement import WINDOW_STATE

Row = Mapping[str, Any]
_SHOWN = 5
SINKS_FOLDER: Final = "sinks"
"""The folder of the demo's state in which these tables are: the demo writes to no target of the project."""


class NoTruth(TandemError, code="demo-unchecked"):
    """The generator has no expected answer for a measure or view, so it cannot be checked."""


@dataclass(frozen=True)
class DemoCheck:
    """The number of compared answers, how many of them differ, and the first of those; an answer is one measure of one row."""

    name: str
    answers: int
    differ: int
    examples: Sequence[Mapping[str, Any]] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether there were answers and all of them agree."""
        return self.answers > 0 and self.differ == 0

    def to_json(self) -> dict[str, Any]:
        """The check as it is in the demo's document."""
        return {"name": self.name, "answers": self.answers, "differ": self.differ, "examples": list(self.examples)}


def compare(
    name: str, views: Mapping[str, View], truth: Mapping[str, Sequence[Row]], found: Mapping[str, Sequence[Row]]
) -> DemoCheck:
    """Compare all rows of all views, on both sides: a row that only one side has differs, and so does a row that occurs twice.

    Raises NoTruth if the expected answers lack a view or an exact measure.
    """
    answers = differ = 0
    examples: list[Mapping[str, Any]] = []
    for view_name, view in views.items():
        exact = _exact(view)
        expected = _answers(view, truth.get(view_name), exact)
        given = _answers(view, found[view_name], exact)
        places = expected.keys() | given.keys()
        answers += len(places)
        wrong = sorted(place for place in places if expected.get(place) != given.get(place))
        differ += len(wrong)
        for row, measure in wrong[: _SHOWN - len(examples)]:
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


def whole_tables(call: Call) -> dict[str, tuple[View, Path]]:
    """The view and the folder of each sink of the demo that has all rows of its view."""
    return {
        name: (defined.view, defined.folder / defined.sink.to.address)
        for name, defined in sinks_of(call.definitions(), call.settings(), call.project).items()
        if isinstance(defined.sink.to, SinkTable) and not defined.sink.keys and defined.sink.where is None
    }


def rows_up_to(view: View, folder: Path, end: Position) -> list[Mapping[str, Any]] | None:
    """The rows of the newest version of a table; None until its token counts everything below a position."""
    if not DeltaTable.is_deltatable(str(folder)):
        return None
    table = DeltaTable(str(folder))
    token = table.history(1)[0].get(METADATA)
    if token is None or not end.at_or_below(ChangesToken.parse(token.partition(" ")[0]).end):
        return None
    columns = pa.schema([field for field in answer_schema(view) if field.name != WINDOW_STATE.name])
    return [*to_rows(view, pa.table(table.to_pyarrow_table()).select(columns.names).cast(columns))]
