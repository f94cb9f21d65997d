"""Definitions whose code is not here: they say all that data can say, and have the rest done by whoever runs the code."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pyarrow as pa

from views.errors import DefinitionError
from views.fingerprint import fingerprint
from views.measures.custom import CustomMeasure, aggregate_of
from views.measures.filtered import Filtered
from views.measures.measure import Aggregate, Measure
from views.source import Source
from views.values import ValueType
from views.view import View

Method = Literal["merge", "present"]
Run = Callable[[str, str, Method, pa.Array, pa.DataType], pa.Array]
"""Runs a method of a project's measure, named by view and measure, for a column; the result has its length and the type given."""


@dataclass(frozen=True, eq=False)
class DescribedView(View):
    """A view that was made from a project's document; `meaning` is its fingerprint as the document says it.

    With `code`, merging and presenting its states runs methods of the project.
    """

    meaning: str = field(default="", kw_only=True)
    code: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class DescribedSource(Source):
    """A source that was made from a project's document; with `code`, decoding its records runs code of the project."""

    code: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class OwnMeasure:
    """A project's own measure; `view` and `name` are where its definition stands."""

    facts: ClassVar = CustomMeasure.facts

    view: str
    name: str
    text: str
    inputs: tuple[str, ...]
    state: pa.DataType
    answer: pa.DataType
    run: Run = field(repr=False)

    def __str__(self) -> str:
        return self.text

    def filtered(self, condition: str) -> Measure:
        """The measure over the events for which a condition is true."""
        return Filtered(self, condition)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """As the class itself; events cannot be folded here. Raises what `run` raises when states are merged or presented."""

        def run(method: Method, expected: pa.DataType) -> Callable[[pa.Array], pa.Array]:
            return lambda column: self.run(self.view, self.name, method, column, expected)

        return aggregate_of(
            types, self.state, self.answer, partial=_not_here, merge=run("merge", self.state), present=run("present", self.answer)
        )


def _not_here(_: pa.Array) -> pa.Array:
    raise DefinitionError("the code that folds events is not here")


def meaning_of(view: View) -> str:
    """The view's fingerprint, which the document of a view knows that was made from one."""
    return view.meaning if isinstance(view, DescribedView) else fingerprint(view)


def runs_code(view: View) -> bool:
    """Whether merging and presenting the view's states runs a project's code in another process."""
    return isinstance(view, DescribedView) and view.code


def decoded_elsewhere(source: Source) -> bool:
    """Whether the source's records can only be decoded by another process."""
    return isinstance(source, DescribedSource) and source.code
