"""docs/measures.md equals the measures' code, and what the code states of sizes and subtraction is true."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # it ships no types
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tandem
from tandem.cli.dev.measures_page import markdown
from tandem.views.kernel.kernel import Partial, merge, partial, present
from tandem.views.measures import (
    approx_count_distinct,
    approx_quantiles,
    approx_top_k,
    count,
    covariance,
    histogram,
    kurtosis,
    mean,
    measure_registry,
    skewness,
    theta_sketch,
    total,
)
from tandem.views.measures.approx_count_distinct import MOST_BYTES as HLL_BYTES
from tandem.views.measures.approx_quantiles import MOST_BYTES as KLL_BYTES
from tandem.views.measures.approx_top_k import ROOM, VALUE_BYTES
from tandem.views.measures.measure import Measure
from tandem.views.measures.theta_sketch import MOST_BYTES as THETA_BYTES
from tandem.views.source.offset_ranges import EMPTY, Ranges
from tandem.views.view import View, bind
from tests.samples import SAMPLES, WIDE, rows, share, table

PAGE = Path(__file__).parents[3] / "docs" / "measures.md"


def test_the_page_is_generated_from_the_code() -> None:
    assert PAGE.read_text("utf-8") == markdown(), "python -m tandem.cli.dev.measures_page > docs/measures.md"


def test_every_measure_is_on_the_page() -> None:
    lines = markdown().splitlines()
    for name in sorted(name for name in vars(measure_registry) if not name.startswith("_")):
        assert name in tandem.__all__
        assert any(line.startswith((f"| `{name}(", f"| `class ...({name})")) for line in lines), name


X = pd.Series([1.0, 2.0, 4.0, 8.0, 3.0, -5.0])
Y = pd.Series([2.0, 1.0, 7.0, 7.0, 2.0, 0.5])
_STATISTICS = markdown().partition("## Which statistic it is")[2].partition("\n## ")[0].splitlines()


@pytest.mark.parametrize("line", [line for line in _STATISTICS if line.startswith("| `")])
def test_each_statistic_is_its_formula_and_what_the_named_peers_compute(line: str) -> None:
    here, definition, _, of_duckdb, of_pandas = (cell.strip() for cell in line.strip("|").split(" | "))
    code = [re.findall("`([^`]*)`", cell)[0] for cell in (here, definition)]
    measure = eval(code[0], vars(measure_registry) | {"x": "f", "y": "d"})
    n, m2, m3, m4 = len(X), *(((X - X.mean()) ** power).mean() for power in (2, 3, 4))
    moments = {"n": n, "m": X.mean(), "m2": m2, "m3": m3, "m4": m4, "m2y": Y.var(ddof=0), "cxy": X.cov(Y, ddof=0)}
    wanted = eval(code[1], moments)
    view = View(SAMPLES, measures={"m": measure})
    events = table([{"f": x, "d": Decimal(str(y))} for x, y in zip(X, Y, strict=True)])
    (row,) = present(view, partial(view, events, Ranges.of({("topic", 0): (0, n)}))).to_pylist()
    assert row["m"] == pytest.approx(wanted, rel=1e-12)
    if not of_duckdb.startswith("none"):
        values = ", ".join(f"({x}, {y})" for x, y in zip(X, Y, strict=True))
        ((answer,),) = duckdb.connect().execute(f"SELECT {of_duckdb.strip('`')} FROM (VALUES {values}) AS v(x, y)").fetchall()
        assert answer == pytest.approx(wanted, rel=1e-12)
    if not of_pandas.startswith("none"):
        assert eval(of_pandas.strip("`"), {"x": X, "y": Y}) == pytest.approx(wanted, rel=1e-12)


def state_bytes(measure: Measure, numbers: int) -> int:
    """How large the state is of that many different texts, or of that many numbers."""
    events = pa.Table.from_pylist([{"at": None}], table([]).schema).take(pa.array(np.zeros(numbers, np.int64)))
    values = pa.array(np.random.default_rng(1).permutation(numbers))
    for name, column in (("i", values), ("s", pa.array([f"{number:08d}" for number in values.to_pylist()]))):
        events = events.set_column(events.schema.get_field_index(name), name, column)
    (state,) = partial(View(SAMPLES, measures={"m": measure}), events, EMPTY).states["m"].to_pylist()
    return len(state)


@pytest.mark.parametrize(
    ("measure", "numbers", "most"),
    [
        (approx_count_distinct("i"), 100_000, HLL_BYTES),
        (theta_sketch("i"), 100_000, THETA_BYTES),
        (approx_top_k("s"), ROOM, 32 + ROOM * (VALUE_BYTES + 8)),
    ],
)
def test_a_full_sketch_takes_the_bytes_in_the_page(measure: Measure, numbers: int, most: int) -> None:
    assert state_bytes(measure, numbers) == most


def test_a_quantile_sketch_stays_below_the_bytes_in_the_page() -> None:
    assert KLL_BYTES // 3 < state_bytes(approx_quantiles("i", (0.5,)), 1_000_000) < KLL_BYTES


INVERTIBLE = View(
    SAMPLES,
    measures={
        "count": count(),
        "positive": count(filter="i > 0"),
        "total": total("i"),
        "total_decimal": total("d"),
        "mean": mean("i"),
        "mean_decimal": mean("d"),
        "histogram": histogram("i", (-2, 2)),
        "covariance": covariance("i", "d"),
        "skewness": skewness("i"),
        "kurtosis": kurtosis("d"),
    },
)


def test_every_invertible_measure_of_the_page_is_tested() -> None:
    tried = {name.partition("_")[0] for name in INVERTIBLE.measures}
    of_one_class = {"correlation": "covariance", "stddev": "skewness", "variance": "skewness"}
    table = markdown().partition("\n## ")[0]
    lines = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    invertible = {cells[0].split("`")[1].partition("(")[0] for cells in lines if cells[5].startswith("yes")}
    assert invertible == {*tried, *of_one_class} - {"positive"}


def folded(events: list[dict[str, Any]], first: int) -> Partial:
    return partial(INVERTIBLE, table(events, first), Ranges.of({("topic", 0): (first, first + len(events))}))


@share(25)
@given(st.lists(rows, min_size=1, max_size=8), st.lists(rows, min_size=1, max_size=8))
def test_states_of_invertible_measures_can_be_subtracted(some: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    one, other = folded(some, 0), folded(others, len(some))
    both = merge(INVERTIBLE, [one, other])
    left = Partial(without(both.states, other.states), EMPTY)
    (found,), (wanted,) = (present(INVERTIBLE, each).to_pylist() for each in (left, one))
    for name in ("total", "total_decimal"):  # whether there is a value left is not known
        wanted[name] = wanted[name] or 0
        found[name] = found[name] or 0
    assert found == wanted


def without(states: pa.Table, taken: pa.Table) -> pa.Table:
    """States less states, column by column; where a count says that nothing is left, the state of nothing."""
    (row,), (theirs,) = states.to_pylist(), taken.to_pylist()
    for measure in bind(INVERTIBLE).measures:
        row |= {name: less(row[name], theirs[name]) for name in measure.columns}
        if row.get(f"{measure.name}__count") == 0:
            row |= dict.fromkeys(set(measure.columns) - {f"{measure.name}__count"})
    return pa.Table.from_pylist([row], states.schema)


def less(mine: Any, theirs: Any) -> Any:
    if isinstance(mine, bytes):  # power sums of large values
        sums = [int(number) for number in mine.split(b",")]
        taken = [int(number) for number in theirs.split(b",")] if theirs else [0] * len(sums)
        return ",".join(str(one - other) for one, other in zip(sums, taken, strict=True)).encode()
    if mine is None:
        return None
    return WIDE.subtract(mine, theirs or 0) if isinstance(mine, Decimal) else mine - (theirs or 0)
