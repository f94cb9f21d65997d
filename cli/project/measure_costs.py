"""The states and the exactness of a measure, in the words of docs/measures.md and `tandem explain`."""

from typing import Any

import pyarrow as pa

from tandem.views.exactness import of_approximation
from tandem.views.measures.measure import Aggregate, Approximation, Facts


def size(aggregate: Aggregate, facts: Facts) -> str:
    """The bytes of a state: those of columns with a fixed width, then the text of the facts about the others."""
    widths = [_width(state.type) for state in aggregate.states]
    fixed = sum(width for width in widths if width is not None)
    parts = [str(fixed)] if fixed else []
    return "; ".join(parts if None not in widths else [*parts, facts.varying])


def facts_of(measure: Any, aggregate: Aggregate) -> Facts:
    """The facts of a bound measure."""
    rounded = aggregate.approximate is not None and aggregate.approximate.kind == "order"
    facts: Facts = getattr(measure, "facts_of_doubles", measure.facts) if rounded else measure.facts
    return facts


def said(approximate: Approximation | None) -> str:
    """How exact an answer is, in the words of answers."""
    return "exact" if approximate is None else of_approximation(approximate).says


def _width(arrow: pa.DataType) -> int | None:
    """The bytes of a value; None for a type whose values have different sizes."""
    try:
        return max(1, int(arrow.bit_width) // 8)
    except ValueError:
        return None
