"""A derived measure that is labelled exact has the value that fractions give, and another one says how it was rounded."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from math import trunc
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import assume, example, given, note
from hypothesis import strategies as st

from tandem.views.exactness import of_measures
from tandem.views.kernel.kernel import merge, present
from tandem.views.kernel.rows import to_rows, written
from tandem.views.measures import count, derived, maximum, minimum, total
from tandem.views.measures.derived import bind_derived
from tandem.views.measures.measure import Aggregate, Rounding, only
from tandem.views.oracle import compare, grouped
from tandem.views.view import View, answer_schema
from tests.samples import SAMPLES, rows, share, table
from tests.views.kernel.test_fold_edges import answers, folded

ANSWERS: Final = {
    "gross": (pa.decimal256(76, 2), "decimal"),
    "fee": (pa.decimal256(76, 2), "decimal"),
    "rate": (pa.decimal128(18, 5), "decimal"),
    "n": (pa.int64(), "integer"),
    "bytes": (pa.decimal128(38, 0), "integer"),
    "ok": (pa.bool_(), "boolean"),
}
AGGREGATES: Final = {name: Aggregate((), type_, kind, only) for name, (type_, kind) in ANSWERS.items()}  # type: ignore[arg-type]
Row = Mapping[str, Any]


class Fails(Exception):
    """The expression has no value."""


@dataclass(frozen=True)
class Said:
    """An expression as SQL and as a function of a row; `rounds` if its value is a quotient."""

    sql: str
    of: Callable[[Row], Any]
    rounds: bool = False


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    units = st.integers(-20, 120) | st.integers(1 - 10**digits, 10**digits - 1)
    return units.map(lambda unit: Decimal((int(unit < 0), tuple(map(int, str(abs(unit)))), -scale)))


VALUES: Final = st.fixed_dictionaries(
    {
        "gross": st.none() | decimals(76, 2),
        "fee": st.none() | decimals(20, 2),
        "rate": st.none() | decimals(18, 5),
        "n": st.none() | st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1),
        "bytes": st.none() | decimals(38, 0),
        "ok": st.none() | st.booleans(),
    }
)


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: None if None in args else function(*args)


def quotient(one: Fraction, other: Fraction) -> Fraction:
    if not other:
        raise Fails
    return one / other


def cast(value: Fraction, digits: int, scale: int) -> Fraction:
    units = trunc(abs(value) * 10**scale + Fraction(1, 2)) * (-1 if value < 0 else 1)
    if abs(units) >= 10**digits:
        raise Fails
    return Fraction(units, 10**scale)


def called(function: Callable[..., Any], *args: Said) -> Callable[[Row], Any]:
    return lambda row: function(*(one.of(row) for one in args))


def column(name: str) -> Said:
    return Said(name, lambda row: row[name])


def constant(text: str) -> Said:
    return Said(text, lambda _: Fraction(text))


def arithmetic(one: Said, other: Said, op: str) -> Said:
    functions: dict[str, Callable[..., Any]] = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": quotient}
    rounds = op == "/" or one.rounds or other.rounds
    return Said(f"({one.sql} {op} {other.sql})", called(strict(functions[op]), one, other), rounds)


def whole(one: Said, other: Said, op: str) -> Said:
    def of(value: Fraction, by: Fraction) -> Fraction:
        cut = Fraction(trunc(quotient(value, by)))
        return cut if op == "//" else value - cut * by

    return Said(f"({one.sql} {op} {other.sql})", called(strict(of), one, other))


def compared(one: Said, other: Said, op: str) -> Said:
    functions = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, ">=": operator.ge}
    return Said(f"({one.sql} {op} {other.sql})", called(strict(functions[op]), one, other))


def joined(one: Said, other: Said, op: str) -> Said:
    decides = op == "OR"

    def decide(*args: bool | None) -> bool | None:
        return decides if decides in args else None if None in args else not decides

    return Said(f"({one.sql} {op} {other.sql})", called(decide, one, other))


def chosen(condition: Said, then: Said, otherwise: Said) -> Said:
    return Said(
        f"(CASE WHEN {condition.sql} THEN {then.sql} ELSE {otherwise.sql} END)",
        lambda row: then.of(row) if condition.of(row) else otherwise.of(row),
        then.rounds or otherwise.rounds,
    )


def instead(one: Said, other: Said) -> Said:
    def of(row: Row) -> Any:
        value = one.of(row)
        return other.of(row) if value is None else value

    return Said(f"coalesce({one.sql}, {other.sql})", of, one.rounds or other.rounds)


def extreme(one: Said, other: Said, which: str) -> Said:
    def of(row: Row) -> Any:
        there = [value for value in (one.of(row), other.of(row)) if value is not None]
        return (max if which == "greatest" else min)(there, default=None)

    return Said(f"{which}({one.sql}, {other.sql})", of, one.rounds or other.rounds)


def as_decimal(one: Said, sizes: tuple[int, int]) -> Said:
    return Said(f"CAST({one.sql} AS DECIMAL({sizes[0]}, {sizes[1]}))", called(strict(lambda value: cast(value, *sizes)), one))


def same(one: Said, other: Said) -> Said:
    return Said(f"({one.sql} IS NOT DISTINCT FROM {other.sql})", lambda row: one.of(row) == other.of(row))


INTEGERS: Final = st.sampled_from([column("n"), column("bytes"), constant("0"), constant("-7"), constant("9007199254740993")])
LEAVES: Final = st.sampled_from([column(name) for name in ANSWERS if name != "ok"]) | st.sampled_from(
    [constant(text) for text in ("0", "1", "-7", "0.20", "0.005", "9007199254740993", "12345678901234567890.123")]
)


@st.composite
def numbers(draw: st.DrawFn, depth: int = 3) -> Said:
    """A number, of others at most so deep."""
    kind = draw(st.integers(0, 8)) if depth else 0

    def part() -> Said:
        return draw(numbers(depth - 1))

    match kind:
        case 1 | 2:
            return arithmetic(part(), part(), draw(st.sampled_from("+-*/")))
        case 3:
            return chosen(draw(conditions(depth - 1)), part(), part())
        case 4:
            return instead(part(), part())
        case 5:
            return extreme(part(), part(), draw(st.sampled_from(["greatest", "least"])))
        case 6:
            return as_decimal(part(), draw(st.sampled_from([(38, 2), (10, 0), (20, 6)])))
        case 7:
            of = part()
            if draw(st.booleans()):
                return Said(f"-({of.sql})", called(strict(operator.neg), of), of.rounds)
            return Said(f"abs({of.sql})", called(strict(abs), of), of.rounds)
        case 8:
            return whole(draw(INTEGERS), draw(INTEGERS), draw(st.sampled_from(["//", "%"])))
    return draw(LEAVES)


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> Said:
    """A condition on numbers at most so deep."""
    kind = draw(st.integers(0, 3)) if depth else 0
    if kind == 1:
        return same(draw(numbers(depth - 1)), draw(numbers(depth - 1)))
    if kind == 2:
        return joined(draw(conditions(depth - 1)), draw(conditions(depth - 1)), draw(st.sampled_from(["AND", "OR"])))
    if kind == 3:
        return compared(draw(numbers(depth - 1)), draw(numbers(depth - 1)), draw(st.sampled_from(["=", "<>", "<", ">="])))
    return column("ok")


def value_of(said: Said, row: Row, answer: pa.DataType) -> Any:
    """What a row of an answer has, by the README's rule of types; None also beyond 76 digits or a double."""
    try:
        value = said.of({name: one if one is None or name == "ok" else Fraction(one) for name, one in row.items()})
        if value is None or isinstance(value, bool):
            return value
        if said.rounds:
            return float(value)
    except (Fails, OverflowError):
        return None
    if pa.types.is_decimal(answer) and abs(value) * 10**answer.scale >= 10**answer.precision:
        return None
    return value


LARGE: Final = dict.fromkeys(ANSWERS) | {"n": 7, "bytes": Decimal(10**38 - 3)}


@share(60, quick=6)
@example(arithmetic(arithmetic(column("bytes"), column("n"), "/"), column("n"), "*"), [LARGE])
@example(whole(column("bytes"), column("n"), "//"), [LARGE])
@example(whole(column("bytes"), column("n"), "%"), [LARGE])
@given(numbers() | conditions(), st.lists(VALUES, min_size=1, max_size=4))
def test_what_is_labelled_exact_is_what_fractions_give(said: Said, given_rows: list[dict[str, Any]]) -> None:
    note(said.sql)
    assume(any(re.search(rf"\b{name}\b", said.sql) for name in ANSWERS))
    columns = {name: pa.array([row[name] for row in given_rows], type_) for name, (type_, _) in ANSWERS.items()}

    expression, aggregate = bind_derived(said.sql, AGGREGATES)

    found = aggregate.present([columns[name] for name in sorted(expression.fields)])
    assert aggregate.rounding == (Rounding(2.0**-53) if said.rounds else None)
    expected = [value_of(said, row, aggregate.answer) for row in given_rows]
    assert found.to_pylist() == expected
    texts = written(found, pa.field("x", aggregate.answer, metadata={"kind": aggregate.kind}))
    kind = {"boolean": bool, "integer": int, "decimal": str, "float": float}[aggregate.kind]
    assert all(text is None or type(text) is kind for text in texts)


DEFINED: Final = {
    "left": derived("sum_d - few_d"),
    "balanced": derived("sum_d - few_d = 0.20 OR sum_d IS NULL"),
    "more": derived("sum_i - n * 3"),
    "product": derived("sum_d * sum_i"),
    "share": derived("few_d / sum_d"),
    "each": derived("CASE WHEN n > 1 THEN sum_d / n ELSE 0 END"),
    "cents": derived("CAST(sum_d / n AS DECIMAL(38, 2))"),
    "apart": derived("most - least"),
    "rounded": derived("round(sum_d - few_d, 1) - 0.05"),
    "said": derived("CASE WHEN sum_d >= 0 THEN CAST(sum_d AS VARCHAR) ELSE 'negative' END"),
    "whole": derived("sum_i // n + sum_i % 7"),
}


@share(20, quick=5)
@given(st.lists(rows, min_size=1, max_size=12))
def test_the_oracle_computes_the_same_of_filtered_measures(events: list[dict[str, Any]]) -> None:
    measures = {
        "n": count(),
        "sum_d": total("d"),
        "few_d": total("d", filter="flag"),
        "sum_i": total("i"),
        "most": maximum("d"),
        "least": minimum("d", filter="i > 0"),
    }
    view = View(SAMPLES, keys={"s": "s"}, measures={**measures, **DEFINED})
    read = table(events)
    published = present(view, merge(view, [folded(view, *events)]))
    assert {one.measure: one.unequal for one in compare(view, published, grouped(view, read)[0])} == dict.fromkeys(
        view.measures, 0
    )
    for row in published.to_pylist():
        with localcontext(prec=100):
            if row["sum_d"] is not None and row["few_d"] is not None:
                assert row["left"] == row["sum_d"] - row["few_d"]
                assert row["product"] is None or row["product"] == row["sum_d"] * row["sum_i"]
    wrong = published.column_names.index("left")
    changed = published.set_column(
        wrong, published.schema.field(wrong), pa.array([Decimal("0.01")] * len(published), pa.decimal256(76, 2))
    )
    found = {one.measure: one.differ for one in compare(view, changed, grouped(view, read)[0])}
    assert found["left"] == sum(row["left"] != Decimal("0.01") for row in published.to_pylist())


def test_money_is_subtracted_and_compared_as_it_is_written() -> None:
    measures = {
        "gross": maximum("d"),
        "sum": total("d"),
        "n": count(),
        "i": total("i"),
        "net": derived("gross - 0.10"),
        "equal": derived("sum - 0.10 = 0.20"),
        "as_cents": derived("CAST(sum AS DECIMAL(38, 2))"),
        "less": derived("i - n"),
    }
    view = View(SAMPLES, measures=measures)
    assert set(of_measures(view)) == set()

    (row,) = answers(view, {"d": Decimal("0.30"), "i": 5})
    assert (row["net"], row["equal"], row["as_cents"]) == (Decimal("0.20"), True, Decimal("0.30"))
    (row,) = answers(view, {"d": Decimal("90071992547409930.30"), "i": 5})
    assert row["as_cents"] == Decimal("90071992547409930.30")
    (shown,) = to_rows(view, present(view, folded(view, {"d": Decimal("0.30"), "i": 5})))
    assert (shown["net"], shown["less"]) == ("0.20", 4)
    assert answer_schema(view).field("less").metadata[b"kind"] == b"integer"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("round(large, 1)", None),
        ("CAST(large AS DECIMAL(38, 2))", None),
        ("TRY_CAST(large AS DECIMAL(38, 2)) IS NULL", True),
        ("large - large", Decimal("0.00")),
        ("large > 0", True),
        ("large / large", 1.0),
        ("length(large :: VARCHAR)", None),
    ],
)
def test_beyond_38_digits_it_is_exact_or_there_is_null(text: str, value: Any) -> None:
    view = View(SAMPLES, measures={"large": total("d"), "x": derived(text)})
    (row,) = answers(view, *({"d": Decimal("9" * 36 + ".99")} for _ in range(200)))
    assert row["x"] == value
