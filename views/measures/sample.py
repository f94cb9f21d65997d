"""A random sample of values, the same for every split of the events: an event's place in the log decides whether it is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import POSITION, Aggregate, Facts, Measure, State
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType, answer_field

_MOST: Final = 10_000

_DICE: Final = "CAST('0x' || left(md5({1} || '/' || {2} || '/' || {3}), 15) AS BIGINT)"
"""The first 60 bits of the MD5 of `topic id/partition/place`, as an integer: the same in every version and on
every machine."""


@dataclass(frozen=True)
class Sample:
    """The values of `k` events drawn without replacement, or of all if there are at most `k`; nulls are ignored.

    An event is drawn if its position's hash is among the k smallest (bottom-k sampling, Cohen and Kaplan 2007), so every
    set of k events is equally likely, and the same log gives the same sample. Its values are in the order of
    the hashes, so the first j of them are a sample of j. As a sample the answer is exact; a statistic computed from it is an
    estimate.
    """

    draws_events: ClassVar = True
    """It cannot tell apart the rows that a source's `prepare` makes of one event."""

    facts: ClassVar = Facts(
        merge="the values of both sorted by hash",
        inverse="no",
        source="bottom-k sampling: Cohen and Kaplan, Summarizing data using bottom-k sketches, PODC 2007",
        varying="at most `k` values and 8 each for their hashes",
    )

    expression: str
    k: int

    def __post_init__(self) -> None:
        """Raises DefinitionError if k is not an integer from 1 to 10 000."""
        if not isinstance(self.k, int) or isinstance(self.k, bool) or not 1 <= self.k <= _MOST:
            raise DefinitionError(f"k {self.k!r} is not an integer from 1 to {_MOST}")

    def __str__(self) -> str:
        return call("sample", self.expression, self.k)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The expression, and the event's place."""
        return (self.expression, *POSITION)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """One list of structs of hash and value; the answer is the list of the values. While it folds, it holds all values."""
        value = types[0]
        state = State(
            "drawn",
            pa.list_(pa.struct([("hash", pa.int64()), ("value", value.arrow)])),
            fold=f"list_sort(list(struct_pack(hash := {_DICE}, value := {{0}})) FILTER ({{0}} IS NOT NULL))[1:{self.k}]",
            merge=f"list_sort(flatten(list({{0}}) FILTER ({{0}} IS NOT NULL)))[1:{self.k}]",
        )
        answer = pa.list_(answer_field("item", value))
        return Aggregate((state,), answer, "list", lambda columns: _present(columns, answer))


def sample(expression: str, k: int = 100, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The values of an expression for k events drawn at random, the same in every answer: `sample("path", 20)`."""
    return filtered(Sample(expression, k), filter, of)


def _present(columns: Sequence[pa.Array], answer: pa.DataType) -> pa.Array:
    (drawn,) = columns
    _, values = drawn.flatten().flatten()
    return arrays.lists(values, arrays.lengths(drawn), answer)
