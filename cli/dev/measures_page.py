"""docs/measures.md: states and costs of measures, from their code. `python -m tandem.cli.dev.measures_page` prints it."""

import inspect
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Final

import pyarrow as pa

from tandem.cli.project.measure_costs import facts_of, said, size
from tandem.views.errors import DefinitionError
from tandem.views.measures import measure_registry
from tandem.views.measures.custom import CustomMeasure
from tandem.views.measures.measure import EVENT_TIME, LOG_ORDER, POSITION, Aggregate, Facts, Measure
from tandem.views.source.value_types import BOOLEAN, FLOAT, INTEGER, TEXT, TIME, ValueType

_DECIMAL: Final = ValueType("decimal", "DECIMAL(38,2)", pa.decimal128(38, 2))
_KNOWN: Final = {
    EVENT_TIME: TIME,
    **dict(zip(POSITION, (TEXT, INTEGER, INTEGER), strict=True)),
    **dict.fromkeys(LOG_ORDER, INTEGER),
    **dict.fromkeys(("begun", "done"), BOOLEAN),
}
"""The types of inputs that the platform provides, and of conditions."""
_ARGUMENTS: Final = {
    "expression": "x",
    "by": "x",
    "limit": 1000,
    "k": 10,
    "first": "x",
    "second": "y",
    "fractions": (0.5, 0.99),
    "edges": (10, 100),
    "steps": ("begun", "done"),
    "within": timedelta(minutes=30),
    "pattern": "begun+ done",
    "define": {"begun": "begun", "done": "done"},
    "left": "begun",
    "right": "done",
}
_COLUMNS: Final = ("measure", "of", "state columns", "bytes", "answer", "subtraction", "a merge costs", "source")
_HEAD: Final = """\
# Measures

Written by `python -m tandem.cli.dev.measures_page > docs/measures.md` from the code in `views/measures/`, one file a family.

A measure stores *states*, one row for each key and window. The columns of the tables:

* *state columns*: the Arrow types of the state for a typical input: an int64, a decimal128(38, 2), a double, a text. A measure
  that accepts texts accepts every other type, too. A measure with one state column stores it under its own name, a measure with
  several under `<measure>__<column>`.
* *bytes*: the memory of one state, plus a bit per column for nulls; tables store it compressed.
* *answer*: whether it is exact; for an estimate its error, with the confidence.
* *subtraction*: whether the state of some events can be subtracted, column by column, from the state of more events. If a count
  of 0 remains, the result is the state of no events.

A `filter=` changes none of this.
"""

_NAMES: Final = """
## What is derived

A derived measure over integers, decimals and conditions is computed with integers of any size:

* Exact, with the label of what it reads: `+`, `-`, `*`, comparisons, `AND`, `OR`, `NOT`, `IN`, `BETWEEN`, `IS NULL`, `CASE`,
  `if`, `coalesce`, `nullif`, `abs`, `greatest`, `least`, and `//` and `%` of integers. The answer is an integer, or a decimal
  with all its digits; null beyond 76 digits.
* `CAST` and `TRY_CAST` to an integer or `DECIMAL(p, s)` round half away from zero, as asked; what does not fit fails.
* `/` and `CAST(... AS DOUBLE)` are exact inside the expression: `a / b = c / d` compares fractions. As the answer they are
  rounded once, to the nearest double: labelled `floating_point`, at most 2^-53 of the value off.
* Any other function or operator is computed by DuckDB. Decimals have at most 38 digits there; one of more digits fails. The
  label is `floating_point`, without a bound, if a double is computed in it, or if decimals may be brought to one scale.
* What fails, such as a division by zero, is null. A branch of `CASE` or `coalesce` that is not taken does not fail.

## Which statistic it is

Of n values that are not null, m is the mean and `m2`, `m3`, `m4` are the central moments: `mk` is the sum of (x - m)^k, divided
by n. Of a *sample* a sum is divided by n - 1, of a whole *population* by n. Peers differ in what their plain name means:

| here | definition | Spark SQL | DuckDB | pandas |
| --- | --- | --- | --- | --- |
| `mean(x)` | `m` | `avg(x)` | `avg(x)` | `x.mean()` |
| `variance(x)` | sample: `m2 * n / (n - 1)` | `var_samp(x)` | `var_samp(x)` | `x.var()` |
| `variance(x, population=True)` | population: `m2` | `var_pop(x)` | `var_pop(x)` | `x.var(ddof=0)` |
| `stddev(x)` | sample: `(m2 * n / (n - 1)) ** 0.5` | `stddev_samp(x)` | `stddev_samp(x)` | `x.std()` |
| `stddev(x, population=True)` | population: `m2 ** 0.5` | `stddev_pop(x)` | `stddev_pop(x)` | `x.std(ddof=0)` |
| `skewness(x)` | population: `m3 / m2 ** 1.5` | `skewness(x)` | none: `skewness` is of a sample | none: `skew` is of a sample |
| `kurtosis(x)` | population, excess: `m4 / m2 ** 2 - 3` | `kurtosis(x)` | `kurtosis_pop(x)` | none: `kurt` is of a sample |
| `covariance(x, y)` | sample: `cxy * n / (n - 1)` | `covar_samp(x, y)` | `covar_samp(x, y)` | `x.cov(y)` |
| `covariance(x, y, population=True)` | population: `cxy` | `covar_pop(x, y)` | `covar_pop(x, y)` | `x.cov(y, ddof=0)` |
| `correlation(x, y)` | Pearson's: `cxy / (m2 * m2y) ** 0.5` | `corr(x, y)` | `corr(x, y)` | `x.corr(y)` |

`cxy` is the sum of (x - m)(y - my), divided by n, over the pairs without null; `m2y` is the second moment of y. One value has no
variance of a sample: the answer is null. `approx_quantiles` estimates the smallest value that a share of at least q of all values
does not exceed: DuckDB's `quantile_disc`, which does not interpolate.

## Names beside those of other systems

A measure has the name of the same function in Spark SQL or DuckDB. The name of an estimate begins with `approx_`, or names its
sketch. These names differ from those of Spark or DuckDB:

| here | elsewhere | reason |
| --- | --- | --- |
| `total`, `minimum`, `maximum` | `sum`, `min`, `max` | a definition is Python, where these three names are built in |
| `mean` | `mean` and `avg` of both | one of two usual names |
| `count_distinct` | `count(DISTINCT x)` | it takes a limit |
| `collect_set` | `collect_set` of Spark, `list(DISTINCT x)` of DuckDB | it takes a limit |
| `approx_quantiles` | `approx_percentile` of Spark, `approx_quantile` of DuckDB | it takes several fractions |
| `approx_top_k` | `approx_top_k` of both | the same; the largest values instead of the most frequent ones are `max_by` |
| `max_by`, `min_by` | `max_by`, `min_by` of both | `k` must be given, and the answer has `by` too |
| `first`, `last` | `min_by(x, time)`, `max_by(x, time)` | those of Spark follow the order of rows, these event time |
| `first_k`, `last_k` | `arg_min(x, time, k)`, `arg_max(x, time, k)` of DuckDB | as `first` and `last` |
| `variance`, `stddev` | `var_samp`, `stddev_samp` | `population=True` gives `var_pop` and `stddev_pop` |
| `covariance`, `correlation` | `covar_samp`, `corr` | whole words, as `variance`; `population=True` gives `covar_pop` |
| `histogram` | `histogram_numeric` of Spark, `histogram` of DuckDB | you choose the edges, so counts are exact |
| `funnel` | `windowFunnel` of ClickHouse | it answers numbers of users by step ([sequences.md](sequences.md)) |
| `matches` | `MATCH_RECOGNIZE` of SQL | it answers the number of matches ([sequences.md](sequences.md)) |
| `pairs` | an interval join | it answers the number of pairs and the time between their events ([sequences.md](sequences.md)) |
| `sample` | none | it draws by hash: the same for every split of the events |
| `theta_sketch` | `theta_sketch_agg` of Spark | it answers the estimate, and keeps the sketch for SQL |
| `derived` | an expression | an expression over other measures' answers |
"""


def markdown() -> str:
    """The whole page."""
    names = [name for name, one in vars(measure_registry).items() if inspect.isfunction(one) or one is CustomMeasure]
    rows = [row for name in sorted(names, key=str.casefold) for row in _rows(name)]
    lines = [_line(_COLUMNS), _line(["---"] * len(_COLUMNS)), *map(_line, rows)]
    return "\n".join([_HEAD, *lines, _NAMES])


def _rows(name: str) -> Iterator[Sequence[str]]:
    factory = getattr(measure_registry, name)
    if factory is CustomMeasure:
        facts = factory.facts
        yield _row(f"`class ...({name})`", "what it takes", "`state`", (facts.varying, "exact without doubles"), facts)
        return
    parameters = list(inspect.signature(factory).parameters.values())
    given = [one.name for one in parameters if one.default is one.empty]
    measure = factory(**{parameter: _ARGUMENTS[parameter] for parameter in given})
    shown = f"`{name}({', '.join(given)})`"
    bound = [(value.sql, aggregate) for value in _typical(measure) if (aggregate := _bound(measure, value)) is not None]
    if not bound:
        yield _row(shown, "answers", "none", (measure.facts.varying, "as exact as what it reads"), measure.facts)
    for _, same in groupby(bound, key=lambda one: _states(one[1])):
        alike = list(same)
        aggregate = alike[0][1]
        facts = facts_of(measure, aggregate)
        of = ", ".join(sql for sql, _ in alike) if measure.inputs else "events"
        yield _row(shown, of, _states(aggregate), (size(aggregate, facts), said(aggregate.approximate)), facts)


def _typical(measure: Measure) -> Sequence[ValueType]:
    """The types to show: one if any type is accepted, each kind of number if only numbers are, or a condition."""
    if not measure.inputs or _bound(measure, TEXT) is not None:
        return (TEXT,)
    return (INTEGER, _DECIMAL, FLOAT, BOOLEAN)


def _bound(measure: Measure, value: ValueType) -> Aggregate | None:
    try:
        return measure.bind([_KNOWN.get(text, value) for text in measure.inputs])
    except DefinitionError:
        return None


def _states(aggregate: Aggregate) -> str:
    if len(aggregate.states) == 1:
        return f"{aggregate.states[0].type}"
    grouped = groupby(aggregate.states, key=lambda state: state.type)
    return "; ".join(f"{', '.join(f'`{state.suffix}`' for state in same)}: {type_}" for type_, same in grouped)


def _row(measure: str, of: str, states: str, computed: tuple[str, str], facts: Facts) -> Sequence[str]:
    return (measure, of, states, *computed, facts.inverse, facts.merge, facts.source)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write(markdown())
