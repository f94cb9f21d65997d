"""The values of a derived measure's terms, with fractions instead of counted units, one row after another.

A row's value is a Fraction, a truth value or None. `NoValue` is raised where there is none.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from math import trunc
from typing import Any, Final

import pyarrow as pa

from tandem.views.arrow import python_values
from tandem.views.oracle.expressions import Rejected, evaluated
from tandem.views.oracle.numbers import nearest
from tandem.views.sql.exact_terms import Term

Row = Mapping[str, Any]

_DIGITS: Final = 100
_LARGEST_READ: Final = 10**38
_OF_TWO: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "/": lambda left, right: left / _divisor(right),
    "//": lambda left, right: Fraction(trunc(left / _divisor(right))),
    "%": lambda left, right: left - right * trunc(left / _divisor(right)),
}


class NoValue(Exception):
    """A row for which a term has no value."""


def derived_values(term: Term, rows: Sequence[Row], types: Mapping[str, pa.DataType]) -> list[Any]:
    """The value of a term for each row of answers, as an answer has it; None where it is NULL or fails."""
    read = {id(part): _of_sql(part, rows, types) for part in _sql_terms(term)}

    def present(number: int, row: Row) -> Any:
        try:
            return _present(term, _value(term, row, number, read))
        except NoValue:
            return None

    return [present(number, row) for number, row in enumerate(rows)]


def _value(term: Term, row: Row, number: int, read: Mapping[int, Sequence[Any]]) -> Any:
    def of(part: Term) -> Any:
        return _value(part, row, number, read)

    match term.op:
        case "column":
            return _number(row[term.value])
        case "constant":
            if term.kind in ("integer", "decimal"):
                return Fraction(term.value, 10**term.scale)
            return term.value
        case "sql":
            value = read[id(term)][number]
            if isinstance(value, Rejected):
                raise NoValue
            return _number(value) if term.kind in ("integer", "decimal") else value
        case "case":
            *checks, otherwise = term.args
            for condition, then in zip(checks[::2], checks[1::2], strict=True):
                if of(condition):
                    return of(then)
            return of(otherwise)
        case "coalesce":
            return next((value for value in map(of, term.args) if value is not None), None)
    args = [of(part) for part in term.args]
    match term.op:
        case "null":
            return args[0] is None
        case "distinct":
            return args[0] != args[1]
        case "and":
            return False if False in args else None if None in args else True
        case "or":
            return True if True in args else None if None in args else False
        case "greatest" | "least":
            extreme = max if term.op == "greatest" else min
            return extreme((arg for arg in args if arg is not None), default=None)
    if None in args:
        return None
    match term.op:
        case "not":
            return not args[0]
        case "negate":
            return -args[0]
        case "abs":
            return abs(args[0])
        case "cast":
            return _cast(term, args[0])
    return _OF_TWO[term.op](*args)


def _cast(term: Term, value: Fraction) -> Fraction | None:
    if term.kind == "fraction":
        return value
    unit = Fraction(1, 10**term.scale)
    units = trunc(abs(value) / unit + Fraction(1, 2)) * (-1 if value < 0 else 1)
    if term.low <= units <= term.high:
        return units * unit
    if term.value:
        return None
    raise NoValue


def _divisor(value: Fraction) -> Fraction:
    if not value:
        raise NoValue
    return value


def _number(value: Any) -> Any:
    return value if value is None or isinstance(value, bool) else Fraction(value)


def _present(term: Term, value: Any) -> Any:
    if not isinstance(value, Fraction):
        return value
    if term.kind == "fraction":
        return nearest(value)
    type_ = term.arrow
    if pa.types.is_decimal(type_):
        return _decimal(value, type_)
    return int(value)


def _decimal(value: Fraction, type_: pa.DataType) -> Decimal | None:
    """None beyond the type's digits."""
    if abs(value) * 10**type_.scale >= 10**type_.precision:
        return None
    with localcontext(prec=_DIGITS):
        return (Decimal(value.numerator) / Decimal(value.denominator)).quantize(Decimal(1).scaleb(-type_.scale))


def _sql_terms(term: Term) -> list[Term]:
    """The terms of DuckDB's that are not part of another one."""
    return [term] if term.op == "sql" else [inner for part in term.args for inner in _sql_terms(part)]


def _of_sql(term: Term, rows: Sequence[Row], types: Mapping[str, pa.DataType]) -> list[Any]:
    """What DuckDB makes of the exact parts of a term; it fails for one of more than 38 digits."""
    columns = {
        name: python_values.array([row[name] for row in rows], type_)
        for name, type_ in types.items()
        if not pa.types.is_decimal256(type_)
    }
    failed = [False] * len(rows)
    for name, part in zip(term.names, term.args, strict=True):
        found: list[Any] = []
        read = {id(inner): _of_sql(inner, rows, types) for inner in _sql_terms(part)}
        for number, row in enumerate(rows):
            try:
                value = _value(part, row, number, read)
                if pa.types.is_decimal256(part.arrow) and isinstance(value, Fraction):
                    failed[number] |= abs(value) * 10**part.scale >= _LARGEST_READ
                found.append(None if failed[number] else _present(part, value))
            except NoValue:
                failed[number] = True
                found.append(None)
        columns[name] = python_values.array(found, part.readable)
    values = evaluated(term.value, pa.table(columns))
    return [Rejected("expression") if wrong else value for wrong, value in zip(failed, values, strict=True)]
