"""The functions over sketch states that statements have, from the same code that presents views.

DuckDB accepts no aggregate written in Python: an aggregate is a macro that collects the states of a group into a list, and a
function from lists of states to states, which Arrow passes 2048 groups at a time. So it works wherever an aggregate may stand,
in any grouping and window, but takes no FILTER of its own.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from tandem.views.arrow import arrays
from tandem.views.errors import TandemError
from tandem.views.measures.approx_count_distinct import ApproxCountDistinct
from tandem.views.measures.approx_quantiles import ApproxQuantiles
from tandem.views.measures.theta_sketch import ThetaSketch, theta_difference, theta_intersection
from tandem.views.source.value_types import FLOAT, TEXT

Sketch = Literal["hll", "kll", "theta"]

SIGNATURES: Final = {
    "hll_estimate": "hll_estimate(state): the number of distinct values, of `approx_count_distinct`",
    "hll_union": "hll_union(state): an aggregate that merges states",
    "kll_quantile": "kll_quantile(state, fraction): the quantile, of `approx_quantiles`",
    "kll_union": "kll_union(state): an aggregate that merges states",
    "theta_difference": "theta_difference(state, without): the state of the values in the first only",
    "theta_estimate": "theta_estimate(state): the number of distinct values, of `theta_sketch`",
    "theta_intersection": "theta_intersection(state, other): the state of the values in both",
    "theta_union": "theta_union(state): an aggregate that merges states",
}
"""A description of each function, by name."""

_MEASURES: Final = {
    "hll": ApproxCountDistinct("x").bind([TEXT]),
    "kll": ApproxQuantiles("x", (0.5,)).bind([FLOAT]),
    "theta": ThetaSketch("x").bind([TEXT]),
}


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Register the functions in a database."""

    def scalar(name: str, function: Callable[..., pa.Array], parameters: Sequence[str], gives: str) -> None:
        connection.create_function(name, function, list(parameters), gives, type=ARROW, null_handling=SPECIAL)

    scalar("hll_estimate", _estimate("hll"), ["BLOB"], "BIGINT")
    scalar("theta_estimate", _estimate("theta"), ["BLOB"], "BIGINT")
    scalar("kll_quantile", _quantile, ["BLOB", "DOUBLE"], "DOUBLE")
    scalar("theta_intersection", _two(lambda one, other: theta_intersection(one, other).state), ["BLOB", "BLOB"], "BLOB")
    scalar("theta_difference", _two(lambda one, other: theta_difference(one, other).state), ["BLOB", "BLOB"], "BLOB")
    for sketch in _MEASURES:
        scalar(f"_{sketch}_united", _united(sketch), ["BLOB[]"], "BLOB")
        collected = f"_{sketch}_united(list(state) FILTER (WHERE state IS NOT NULL))"
        connection.execute(f"CREATE MACRO {sketch}_union(state) AS {collected}")


def _estimate(sketch: str) -> Callable[[pa.Array], pa.Array]:
    def estimate(states: pa.Array) -> pa.Array:
        return _told(sketch, lambda: _MEASURES[sketch].present([_whole(states)]))

    return estimate


def _united(sketch: str) -> Callable[[pa.Array], pa.Array]:
    (state,) = _MEASURES[sketch].states

    def united(lists: pa.Array) -> pa.Array:
        unite = state.unite
        assert unite is not None  # no sketch is merged by DuckDB
        return _told(sketch, lambda: unite(_whole(lists)))

    return united


def _quantile(states: pa.Array, fractions: pa.Array) -> pa.Array:
    """The quantile of each state at the fraction beside it; NULL where either is."""
    given, at = _whole(states).to_pylist(), _whole(fractions).to_pylist()
    found: list[float | None] = [None] * len(given)
    for fraction in {one for one in at if one is not None}:
        if not 0 <= fraction <= 1:
            raise TandemError(f"invalid fraction {fraction} of kll_quantile; expected 0 to 1, such as 0.99")
        rows = [row for row, one in enumerate(at) if one == fraction]
        present = ApproxQuantiles("x", (fraction,)).bind([FLOAT]).present
        column = arrays.binaries([given[row] for row in rows])
        answers = _told("kll", lambda present=present, column=column: present([column]))  # type: ignore[misc]
        for row, value in zip(rows, answers.field(0).to_pylist(), strict=True):
            found[row] = value if given[row] is not None else None
    return arrays.floats(found)


def _two(function: Callable[[bytes | None, bytes | None], bytes]) -> Callable[[pa.Array, pa.Array], pa.Array]:
    def both(one: pa.Array, other: pa.Array) -> pa.Array:
        pairs = zip(_whole(one).to_pylist(), _whole(other).to_pylist(), strict=True)
        return arrays.binaries([function(*pair) for pair in pairs])

    return both


def _told(sketch: str, compute: Callable[[], pa.Array]) -> pa.Array:
    try:
        return compute()
    except Exception as error:  # the binding raises what C++ throws, of several types
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TandemError(f"invalid argument of a {sketch} function; expected the state of a {sketch} sketch: {first}") from error


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return arrays.whole(column) if isinstance(column, pa.ChunkedArray) else column
