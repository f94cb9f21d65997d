"""Measures that are computed from a view's other measures when an answer is presented, and keep no state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.measures.measure import Aggregate, Approximation, Facts
from tandem.views.source.value_types import ValueType, normalised, objections
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.sql.expressions import Expression, bind_expression
from tandem.views.sql.syntax import enclosed

_ANSWERS: Final = "_answers"
_ROW: Final = "_row"


@dataclass(frozen=True)
class Derived:
    """An expression over the answers of other measures of the view; null where it fails or is not finite."""

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
    schema = pa.schema([(name, _readable(aggregate.answer)) for name, aggregate in answers.items()])
    expression = bind_expression(text, schema, "this view")
    read = sorted(expression.fields)
    if not read:
        raise DefinitionError(f"reads no other measure; measures: {', '.join(answers) or 'none'}")
    fuzzy = any(answers[name].approximate for name in read)
    return expression, Aggregate(
        (),
        expression.type.arrow,
        expression.type.kind,
        lambda columns: _evaluated(expression, dict(zip(read, columns, strict=True))),
        Approximation("derived") if fuzzy else None,
    )


def _evaluated(expression: Expression, answers: Mapping[str, pa.Array]) -> pa.Array:
    rows = len(next(iter(answers.values())))
    columns = [column.cast(_readable(column.type)) for column in answers.values()]
    table = pa.Table.from_arrays([*columns, arrays.from_numpy(np.arange(rows), pa.int64())], names=[*answers, _ROW])
    value = normalised(enclosed(expression.text), expression.type)
    wrong = [objection for objection, _ in objections("_e.v", expression.type)]
    kept = f"CASE WHEN NOT ({' OR '.join(wrong)}) THEN _e.v END" if wrong else "_e.v"
    sql = f"SELECT {kept} AS v FROM (SELECT {quoted(_ROW)}, TRY(struct_pack(v := {value})) AS _e FROM {_ANSWERS}) ORDER BY {_ROW}"
    found = [
        pa.nulls(1, expression.type.arrow) if result is None else arrays.whole(result.column("v")).cast(expression.type.arrow)
        for _, result in engine.halved(sql, _ANSWERS, table)
    ]
    return pa.concat_arrays(found)


def _readable(answer: pa.DataType) -> pa.DataType:
    """A column that DuckDB can read: it has no decimals of more than 38 digits."""
    return pa.float64() if pa.types.is_decimal256(answer) else answer
