"""Exact power sums of integers and decimals: the states that variance, skewness, kurtosis and covariance share.

Values are counted in their type's smallest unit, so all sums are integers.

* Up to a bound, DuckDB adds up products in 128 bits, which has room for 10^18 of them.
* Beyond it, where values are rare, Python adds up products as integers of any size, kept as text.

Each event is compared with the bound by itself, so the states stay sums and are the same for every split of the events.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.measures.measure import Facts, State
from tandem.views.source.value_types import HUGE, ValueType

_ROOM: Final = 2**66
"""10^18 addends below it stay below 2^126."""

Powers = Sequence[tuple[int, ...]]
"""The products that are kept: (2,) is x squared, (1, 1) is x times y."""


POWER_SUMS: Final = Facts(
    merge="one addition per column, of `large` in Python's integers",
    inverse="yes",
    source="sums of powers and products; moments from them by the binomial theorem, in integers, divided once",
    varying="`large` is null unless a value is beyond 2^(66/p) smallest units, p the highest power; then one number per sum",
)


def power_sum_states(values: Sequence[ValueType], powers: Powers) -> tuple[State, ...]:
    """A count, a sum per product, and one state for the values beyond the bound; an event with a null is ignored."""
    units = [_units(value, f"{{{number}}}") for number, value in enumerate(values)]
    bound = int(_ROOM ** (1 / max(map(sum, powers))))
    small = " AND ".join(f"{unit} BETWEEN -{bound} AND {bound}" for unit in units)
    given = " AND ".join(f"{{{number}}} IS NOT NULL" for number in range(len(values)))
    products = [" * ".join(unit for unit, power in zip(units, each, strict=True) for _ in range(power)) for each in powers]
    return (
        State("count", pa.int64(), f"count(*) FILTER ({given})", "CAST(sum({0}) AS BIGINT)"),
        *(
            State(f"sum{''.join(map(str, each))}", HUGE, f"sum(CASE WHEN {small} THEN {product} END)", "sum({0})")
            for each, product in zip(powers, products, strict=True)
        ),
        State(
            "large",
            pa.binary(),
            fold=f"flatten(list([{', '.join(units)}]) FILTER ({given} AND NOT ({small})))",
            merge="list({0}) FILTER ({0} IS NOT NULL)",
            build=lambda lists: _build(lists, len(values), powers),
            unite=_unite,
        ),
    )


def power_sums(columns: Sequence[pa.Array]) -> list[tuple[int, ...] | None]:
    """By row the count and the sums, in the order of the products; None without values."""
    counts, *sums, large = columns
    numbers = [arrays.unscaled(column) for column in sums]
    found: list[tuple[int, ...] | None] = []
    for row, (count, text) in enumerate(zip(arrays.integers(counts).tolist(), large.to_pylist(), strict=True)):
        if not count:
            found.append(None)
            continue
        small = [column[row] or 0 for column in numbers]
        beyond = _parsed(text) if text is not None else [0] * len(small)
        found.append((count, *(one + other for one, other in zip(small, beyond, strict=True))))
    return found


def scale_of(value: ValueType) -> int:
    """How many smallest units make 1."""
    scale: int = 10 ** getattr(value.arrow, "scale", 0)
    return scale


def _units(value: ValueType, column: str) -> str:
    """SQL for the value as a count of its smallest unit."""
    scale = getattr(value.arrow, "scale", 0)
    return f"CAST(replace(CAST({column} AS VARCHAR), '.', '') AS HUGEINT)" if scale else f"CAST({column} AS HUGEINT)"


def _build(lists: pa.ListArray, inputs: int, powers: Powers) -> pa.Array:
    values = arrays.unscaled(lists.values)
    offsets = lists.offsets.to_pylist()
    return arrays.binaries([_of(values[start:to], inputs, powers) if start < to else None for start, to in pairwise(offsets)])


def _of(values: Sequence[int | None], inputs: int, powers: Powers) -> bytes:
    sums = [0] * len(powers)
    for at in range(0, len(values), inputs):
        for number, each in enumerate(powers):
            product = 1
            for value, power in zip(values[at : at + inputs], each, strict=True):
                product *= (value or 0) ** power
            sums[number] += product
    return _text(sums)


def _unite(lists: pa.ListArray) -> pa.Array:
    texts, offsets = lists.values.to_pylist(), lists.offsets.to_pylist()
    return arrays.binaries(
        [
            _text([sum(column) for column in zip(*map(_parsed, texts[start:to]), strict=True)]) if start < to else None
            for start, to in pairwise(offsets)
        ]
    )


def _text(sums: Sequence[int]) -> bytes:
    return ",".join(map(str, sums)).encode("ascii")


def _parsed(text: bytes) -> list[int]:
    return [int(number) for number in text.split(b",")]
