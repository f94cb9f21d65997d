"""The number of events."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Facts, Measure, State, only
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType


@dataclass(frozen=True)
class Count:
    """The number of events."""

    facts: ClassVar = Facts(merge="one addition", inverse="yes", source="counting")

    inputs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "count()"

    def bind(self, types: Sequence[ValueType]) -> Aggregate:  # noqa: ARG002  a count has no inputs
        """An exact 64-bit integer."""
        state = State("count", pa.int64(), fold="count(*)", merge="CAST(sum({0}) AS BIGINT)")
        return Aggregate((state,), pa.int64(), "integer", only)


def count(*, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The number of events."""
    return filtered(Count(), filter, of)
