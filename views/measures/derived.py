"""Measures that are computed from a view's other measures when an answer is presented, and keep no state."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.measures.measure import Aggregate, Approximation, Facts, Rounding
from tandem.views.source.value_types import ValueType
from tandem.views.sql.exact_numbers import values
from tandem.views.sql.exact_terms import Term, terms_of
from tandem.views.sql.expressions import Expression, bind_expression, type_of

HALF_UNIT: Final = 2.0**-53
"""The relative error of a double that is the nearest one to a number."""


@dataclass(frozen=True)
class Derived:
    """An expression over the answers of other measures of the view; null where it fails or is not finite.

    Integers and decimals are added, subtracted, multiplied, compared, chosen and cast exactly, at any size; an answer of more
    than 76 digits is null. A quotient is rounded once, to the nearest double. What else DuckDB computes takes decimals of at most
    38 digits, and is null for others; where it computes in doubles, the answer is labelled as rounded.
    """

    facts: ClassVar = Facts(
        merge="nothing: it is computed when an answer is presented",
        inverse="as the measures that it reads",
        source="the expression",
        varying="none",
    )

    expression: str

    def __str__(self) -> str:
        return call("derived", self.expression)

    @property
    def inputs(self) -> tuple[str, ...]:
        """None: it reads no event."""
        return ()

    def bind(self, types: Sequence[ValueType]) -> Aggregate:  # noqa: ARG002  there are none
        """Always raises DefinitionError: `bind_derived` binds it to the view's answers instead."""
        raise DefinitionError("is derived, which cannot be filtered; filter the measures that it reads")


def derived(expression: str) -> Derived:
    """An expression over other measures of the view: `derived("errors / hits")`."""
    return Derived(expression)


def bind_derived(text: str, answers: Mapping[str, Aggregate]) -> tuple[Expression, Aggregate]:
    """The expression over the other measures' answers, and how it is presented from those that it reads, in order of name.

    It is approximate if one of them is. Raises DefinitionError.
    """
    expression = bind_expression(
        text, pa.schema([(name, _readable(measured.answer)) for name, measured in answers.items()]), "this view"
    )
    read = sorted(expression.fields)
    if not read:
        raise DefinitionError(f"reads no other measure; measures: {', '.join(answers) or 'none'}")
    term = derived_term(expression, answers)
    kind = term.kind if term.kind in ("boolean", "integer", "decimal") else "float"
    return expression, Aggregate(
        (),
        term.arrow,
        kind if term.type is None else term.type.kind,
        lambda columns: values(term, dict(zip(read, columns, strict=True))),
        Approximation("derived") if any(answers[name].approximate for name in read) else None,
        rounding=Rounding(None) if term.rounded else Rounding(HALF_UNIT) if term.kind == "fraction" else None,
    )


def derived_term(expression: Expression, answers: Mapping[str, Aggregate]) -> Term:
    """What a checked expression computes of answers. Raises DefinitionError."""
    fields = pa.schema([pa.field(name, measured.answer, metadata={"kind": measured.kind}) for name, measured in answers.items()])
    return terms_of(json.loads(expression.canonical), fields, type_of)


def _readable(answer: pa.DataType) -> pa.DataType:
    """A type by which DuckDB can check an expression: it has no decimals of more than 38 digits."""
    return pa.float64() if pa.types.is_decimal256(answer) else answer
