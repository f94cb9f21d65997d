"""Terms (tandem.views.sql.exact_terms) computed for all rows at once, with integers of any size.

Numbers are counted in their smallest units: in 64 bits where they fit, else in Python's integers. A fraction is two integers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow import arrays
from tandem.views.source.value_types import ValueType, normalised, objections
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.sql.exact_terms import DUCKDB_DIGITS, INT64, Term
from tandem.views.sql.syntax import enclosed

Units = npt.NDArray[Any]
"""Integers: of dtype int64, or Python's as objects."""
Mask = npt.NDArray[np.bool_]

_PARTS: Final = "_parts"
_ROW: Final = "_row"
_EXACT_IN_DOUBLE: Final = 2**53


@dataclass(frozen=True)
class _Values:
    """A term's values: booleans, or integers over `of` where it is a fraction; 0 where they are not `there`.

    `failed` rows have no value, and neither has what reads them.
    """

    is_: Units
    there: Mask
    failed: Mask
    of: Units | None = None


def values(term: Term, columns: Mapping[str, pa.Array]) -> pa.Array:
    """The term's values over columns of equal lengths: null where it is NULL, fails, or has more digits than its type."""
    rows = len(next(iter(columns.values())))
    if not term.exact:
        array, fine = _load(term, columns, rows)
        return array if fine.all() else pc.if_else(arrays.booleans(fine), array, pa.scalar(None, array.type))
    return _present(term, _compute(term, columns, rows))


def _compute(term: Term, columns: Mapping[str, pa.Array], rows: int) -> _Values:
    if term.op == "column":
        return _of_array(columns[term.value])
    if term.op == "constant":
        there = np.full(rows, term.kind != "null")
        value = bool(term.value) if term.kind == "boolean" else term.value or 0
        return _Values(_full(rows, value), there, ~np.ones(rows, bool))
    if term.op == "sql":
        array, fine = _load(term, columns, rows)
        read = _of_array(array)
        return replace(read, failed=~fine)
    args = [_compute(arg, columns, rows) for arg in term.args]
    if term.op in ("case", "coalesce"):
        return _chosen(term, args)
    failed = reduce(np.logical_or, (arg.failed for arg in args))
    there = reduce(np.logical_and, (arg.there for arg in args)) & ~failed
    match term.op:
        case "not":
            return _Values(there & ~_true(args[0]), there, failed)
        case "null":
            return _Values(~args[0].there & ~failed, ~failed, failed)
        case "and" | "or":
            return _join(term.op, args, failed)
        case "distinct":
            equal = _compare("=", *_alike(term.args, args))
            same = np.where(args[0].there & args[1].there, equal, args[0].there == args[1].there)
            return _Values(~same & ~failed, ~failed, failed)
        case "=" | "<>" | "<" | "<=" | ">" | ">=":
            return _Values(_compare(term.op, *_alike(term.args, args)) & there, there, failed)
        case "greatest" | "least":
            return _extreme(term, args, failed)
        case "cast":
            return _cast(term, args[0], there, failed)
    return _arithmetic(term, args, there, failed)


def _of_array(array: pa.Array) -> _Values:
    there = arrays.validity(array)
    nothing = np.zeros(len(array), bool)
    if pa.types.is_boolean(array.type):
        return _Values(pc.fill_null(array, False).to_numpy(zero_copy_only=False).astype(bool), there, nothing)
    if pa.types.is_int64(array.type):
        return _Values(np.where(there, arrays.integers(array), 0), there, nothing)
    width = array.type.byte_width // 8
    words = np.frombuffer(array.buffers()[1] or b"", np.int64).reshape(-1, width)[array.offset : array.offset + len(array)]
    words = np.where(there[:, None], words, 0)
    low = words[:, 0]
    if (words[:, 1:] == (low >> 63)[:, None]).all():
        return _Values(low, there, nothing)
    units = words[:, -1].astype(object)
    for place in range(width - 2, -1, -1):
        units = units * 2**64 + words[:, place].astype(np.uint64).astype(object)
    return _Values(units, there, nothing)


def _full(rows: int, value: bool | int) -> Units:  # noqa: FBT001  a value of a column
    if isinstance(value, bool):
        return np.full(rows, value)
    return np.full(rows, value, np.int64 if INT64[0] < value <= INT64[1] else object)


def _chosen(term: Term, args: Sequence[_Values]) -> _Values:
    """Row by row the first branch whose condition is true, or that is not NULL; what is not chosen cannot fail."""
    branches: list[tuple[_Values | None, _Values]] = [(None, arg) for arg in args]
    if term.op == "case":
        branches = [*zip(args[0:-1:2], args[1:-1:2], strict=True), (None, args[-1])]
    terms = term.args if term.op == "coalesce" else (*term.args[1:-1:2], term.args[-1])
    alike = _alike(terms, [branch for _, branch in branches], term)
    rows = len(args[0].there)
    is_, of = np.zeros(rows, object), np.ones(rows, object) if term.kind == "fraction" else None
    there, failed, undecided = np.zeros(rows, bool), np.zeros(rows, bool), np.ones(rows, bool)
    for (condition, _), branch in zip(branches, alike, strict=True):
        if condition is not None:
            failed |= undecided & condition.failed
            undecided = undecided & ~condition.failed
            here = undecided & condition.there & _true(condition)
        else:
            here = undecided & (branch.there | branch.failed) if term.op == "coalesce" else undecided
        is_[here] = branch.is_[here]
        if of is not None:
            of[here] = _ones(branch)[here]
        there |= here & branch.there
        failed |= here & branch.failed
        undecided = undecided & ~here
    if term.kind == "boolean":
        return _Values(is_.astype(bool) & there, there, failed)
    return _Values(_narrow(is_), there, failed, None if of is None else _narrow(of))


def _join(op: str, args: Sequence[_Values], failed: Mask) -> _Values:
    """AND and OR of three values: FALSE, or TRUE, decides whatever else is NULL."""
    decides = op == "or"
    decided = reduce(np.logical_or, (arg.there & (_true(arg) == decides) for arg in args))
    all_there = reduce(np.logical_and, (arg.there for arg in args))
    there = (decided | all_there) & ~failed
    return _Values(there & (decided if decides else ~decided), there, failed)


def _extreme(term: Term, args: Sequence[_Values], failed: Mask) -> _Values:
    """The greatest or least that is there."""
    first, *others = _alike(term.args, args, term)
    for other in others:
        beyond = _compare(">" if term.op == "greatest" else "<", other, first)
        better = other.there & (~first.there | beyond)
        of = None if first.of is None else np.where(better, _ones(other), first.of)
        first = _Values(np.where(better, other.is_, first.is_), first.there | other.there, failed, of)
    return replace(first, there=first.there & ~failed, failed=failed)


def _arithmetic(term: Term, args: Sequence[_Values], there: Mask, failed: Mask) -> _Values:
    operand = args[0]
    if term.op in ("negate", "abs"):
        changed = _product(operand.is_, -1)
        return replace(operand, is_=changed if term.op == "negate" else np.where(operand.is_ < 0, changed, operand.is_))
    if term.op in ("//", "%"):
        return _divide_whole(term.op, args[0], args[1], there, failed)
    if term.op == "/":
        first, second = (_fraction(arg, of) for arg, of in zip(args, term.args, strict=True))
        zero = second.is_ == 0
        failed = failed | (there & zero)
        there = there & ~zero
        upper, lower = _product(first.is_, _ones(second)), _product(_ones(first), second.is_)
        upper, lower = (np.where(lower < 0, _product(part, -1), part) for part in (upper, lower))
        return _Values(np.where(there, upper, 0), there, failed, np.where(there, lower, 1))
    if term.op == "*":
        if term.kind != "fraction":
            return _Values(_product(args[0].is_, args[1].is_), there, failed)
        first, second = (_fraction(arg, of) for arg, of in zip(args, term.args, strict=True))
        return _Values(_product(first.is_, second.is_), there, failed, _product(_ones(first), _ones(second)))
    first, second = _alike(term.args, args, term)
    if term.op == "-":
        second = replace(second, is_=_product(second.is_, -1))
    if term.kind != "fraction":
        return _Values(_sum(first.is_, second.is_), there, failed)
    upper = _sum(_product(first.is_, _ones(second)), _product(second.is_, _ones(first)))
    return _Values(upper, there, failed, _product(_ones(first), _ones(second)))


def _divide_whole(op: str, first: _Values, second: _Values, there: Mask, failed: Mask) -> _Values:
    """The quotient cut toward zero, or what is left of it; fails for 0."""
    zero = second.is_ == 0
    failed, there = failed | (there & zero), there & ~zero
    by = np.where(there, second.is_, 1).astype(object)
    whole = np.where(there, first.is_, 0).astype(object)
    quotient = abs(whole) // abs(by) * np.where((whole < 0) == (by < 0), 1, -1)
    return _Values(_narrow(quotient if op == "//" else whole - quotient * by), there, failed)


def _cast(term: Term, of: _Values, there: Mask, failed: Mask) -> _Values:
    """Rounded half away from zero; what does not fit fails, or is NULL for TRY_CAST."""
    source = term.args[0]
    if term.kind == "fraction":
        return replace(_fraction(of, source), there=there, failed=failed)
    if of.of is None and source.scale <= term.scale:
        units = _product(of.is_, 10 ** (term.scale - source.scale))
    else:
        fraction = _fraction(of, source)
        upper, lower = _product(fraction.is_, 10**term.scale).astype(object), _ones(fraction).astype(object)
        units = _narrow((2 * abs(upper) + lower) // (2 * lower) * np.where(upper < 0, -1, 1))
    fits = (units >= term.low) & (units <= term.high)
    fits = fits.astype(bool) | ~there
    return _Values(np.where(fits, units, 0), there & fits, failed if term.value else failed | ~fits)


def _alike(terms: Sequence[Term], args: Sequence[_Values], result: Term | None = None) -> list[_Values]:
    """Values that can be compared or added up: all as fractions, or all in the same units."""
    if any(value.kind == "boolean" for value in terms):
        return list(args)
    if any(value.kind == "fraction" for value in terms):
        return [_fraction(arg, term) for arg, term in zip(args, terms, strict=True)]
    scale = max(value.scale for value in terms) if result is None else result.scale
    return [replace(arg, is_=_product(arg.is_, 10 ** (scale - term.scale))) for arg, term in zip(args, terms, strict=True)]


def _fraction(values: _Values, term: Term) -> _Values:
    return values if values.of is not None else replace(values, of=_full(len(values.is_), 10**term.scale))


def _compare(op: str, first: _Values, second: _Values) -> Mask:
    left, right = first.is_, second.is_
    if first.of is not None:
        left, right = _product(left, _ones(second)), _product(right, _ones(first))
    compare = {"=": np.equal, "<>": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[op]
    return np.asarray(compare(left, right), bool)


def _product(left: Units, right: Units | int) -> Units:
    if isinstance(right, int):
        right = _full(len(left), right)
    if _largest(left) * _largest(right) <= INT64[1]:
        return np.multiply(left, right)
    large: Units = np.multiply(left.astype(object), right.astype(object))
    return large


def _sum(left: Units, right: Units) -> Units:
    if _largest(left) + _largest(right) <= INT64[1]:
        return np.add(left, right)
    large: Units = np.add(left.astype(object), right.astype(object))
    return large


def _largest(units: Units) -> int:
    if units.dtype == object:
        return 2**64
    return max(int(units.max(initial=0)), -int(units.min(initial=0)))


def _narrow(units: Units) -> Units:
    """In 64 bits if all fit."""
    try:
        return units.astype(np.int64)
    except OverflowError:
        return units


def _ones(values: _Values) -> Units:
    return values.of if values.of is not None else _full(len(values.is_), 1)


def _true(values: _Values) -> Mask:
    return values.is_.astype(bool)


def _present(term: Term, values: _Values) -> pa.Array:
    arrow, there = term.arrow, values.there & ~values.failed
    if pa.types.is_boolean(arrow):
        return arrays.booleans(_true(values), there)
    if pa.types.is_floating(arrow):
        return _round(values.is_, _ones(values), there)
    return _exact(values.is_, there, arrow)


def _exact(units: Units, there: Mask, arrow: pa.DataType) -> pa.Array:
    if pa.types.is_int64(arrow):
        return arrays.from_numpy(np.where(there, units, 0).astype(np.int64), arrow, there)
    if units.dtype != object:
        words = np.stack([units, *[units >> 63] * (arrow.byte_width // 8 - 1)], axis=1)
        return arrays.decimals_of_words(words, arrow, there)
    most = 10**arrow.precision
    return arrays.decimals(
        [int(unit) if here and abs(unit) < most else None for unit, here in zip(units, there.tolist(), strict=True)], arrow
    )


def _round(upper: Units, lower: Units, there: Mask) -> pa.Array:
    """The doubles nearest to fractions; null beyond the doubles."""
    if _largest(upper) < _EXACT_IN_DOUBLE and _largest(lower) < _EXACT_IN_DOUBLE:
        return arrays.from_numpy(upper / lower + 0.0, pa.float64(), there)  # -0.0 + 0.0 is 0.0
    return arrays.floats([_nearest(int(u), int(v)) if here else None for u, v, here in zip(upper, lower, there, strict=True)])


def _nearest(upper: int, lower: int) -> float | None:
    try:
        return upper / lower + 0.0
    except OverflowError:
        return None


def _load(term: Term, columns: Mapping[str, pa.Array], rows: int) -> tuple[pa.Array, Mask]:
    """What DuckDB makes of a term, and where it did not fail; it fails for a part of more than 38 digits."""
    assert term.type is not None
    fine = np.ones(rows, bool)
    read = {name: column for name, column in columns.items() if not pa.types.is_decimal256(column.type)}
    for name, part in zip(term.names, term.args, strict=True):
        of_part = _compute(part, columns, rows)
        there = of_part.there & ~of_part.failed
        fine &= ~of_part.failed
        if pa.types.is_decimal256(part.arrow):
            fits = (abs(of_part.is_.astype(object)) < 10**DUCKDB_DIGITS).astype(bool) | ~there
            fine &= fits
            read[name] = _exact(of_part.is_, there & fits, part.readable)
        else:
            read[name] = _present(part, of_part)
    table = pa.table({**read, _ROW: arrays.row_numbers(rows)})
    array, worked = _query(term.value, term.type, table)
    return array, fine & worked


def _query(text: str, type_: ValueType, table: pa.Table) -> tuple[pa.Array, Mask]:
    value = normalised(enclosed(text), type_)
    wrong = [objection for objection, _ in objections("_e.v", type_)]
    kept = f"CASE WHEN NOT ({' OR '.join(wrong)}) THEN _e.v END" if wrong else "_e.v"
    row = quoted(_ROW)
    sql = (
        f"SELECT {kept} AS v, _e IS NOT NULL AS fine "
        f"FROM (SELECT {row}, TRY(struct_pack(v := {value})) AS _e FROM {_PARTS}) ORDER BY {row}"
    )
    pieces, fine = [], []
    for _, result in engine.halved(sql, _PARTS, table):
        if result is None:
            pieces.append(pa.nulls(1, type_.arrow))
            fine.append(np.zeros(1, bool))
        else:
            pieces.append(arrays.whole(result.column("v")).cast(type_.arrow))
            fine.append(arrays.whole(result.column("fine")).to_numpy(zero_copy_only=False).astype(bool))
    return pa.concat_arrays(pieces), np.concatenate(fine)
