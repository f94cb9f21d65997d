"""The type of a field, from the values of a column or of a JSON member.

A type fits if the readers of the decoders read every value with it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec

from tandem.views.source.event import Event, event_fields
from tandem.views.source.fields.numbers import decimal_of_text
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.text_values import Read, reader
from tandem.views.source.source import PLAUSIBLE
from tandem.views.source.time_notation import Epoch, Format, Zone

ABSENT: Final = object()
"""Stands for the value of a member that an object does not have."""

STRUCT: Final = "Struct"
"""Stands for the name of a class in an annotation."""

Kind = Literal["time", "date", "integer", "decimal", "double", "truth", "text", "struct", "other"]

PATTERNS: Final = (
    "%m/%d/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %I:%M:%S %p",
    "%m/%d/%Y %I:%M %p",
    "%m/%d/%Y %H:%M",
    "%d/%m/%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%Y-%m-%d %H:%M:%S %Z",
    "%Y-%m-%d %H:%M:%S %z",
    "%d/%b/%Y:%H:%M:%S %z",
    "%a, %d %b %Y %H:%M:%S %Z",
    "%a, %d %b %Y %H:%M:%S %z",
    "%a %b %d %H:%M:%S %Y",
    "%a %b %e %H:%M:%S %Y",
    "%d %b %Y %H:%M:%S",
    "%b %d %Y %H:%M:%S",
    "%Y%m%d%H%M%S",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%d.%m.%Y",
    "%Y/%m/%d",
    "%b %d %Y",
    "%B %d, %Y",
    "%d %b %Y",
    "%d-%b-%y %I.%M.%S.%f %p",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%m/%d/%y",
    "%Y%m%d",
)
"""Times and dates as people write them, beside ISO 8601; where several fit, the first is taken, and the others are named."""

_MONEY: Final = re.compile(
    r"amount|price|total|cost|fee|revenue|gross|net|tax|balance|budget|salary|sales|paid|pay", re.IGNORECASE
)
_TIMES: Final = re.compile(r"(?i:time|timestamp|date|epoch|created|updated|ts)|(?:^|_)(?:at|ms|us|ns)(?:_|$)|[a-z]At$")
_CODE: Final = re.compile(r"[+-]?0[0-9]+$")
_CLOCK: Final = re.compile(r"[0-9]{1,2}(:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?|\.[0-9]{2}\.[0-9]{2})( ?[AaPp]\.?[Mm]\.?)?")
_CLOCKS: Final = ("%H:%M:%S", "%H:%M", "%H.%M.%S", "%H:%M:%S.%f", "%I:%M:%S %p", "%I:%M %p")
_POINT: Final = re.compile(r"\.[0-9]")
_DIGITS: Final = 38
_DECIMAL_SCALE: Final = 9
"""The most digits after the point of a decimal that counts as money."""
_FIXED: Final = 2
"""The digits after the point that show a decimal, where every number has as many."""


@dataclass(frozen=True)
class FieldType:
    """A type, and what its values are.

    * `annotation`: Python text, without Optional; empty if no type fits. `note` names what init guessed.
    * `missing`: some values are null; `absent`: some objects lack the member.
    * `span`: the first and the last time of a `time` or `date`.
    * `distinct`: the number of different values. `members` are those of a struct, by their keys.
    """

    kind: Kind
    annotation: str
    note: str = ""
    missing: bool = False
    absent: bool = False
    span: tuple[datetime, datetime] | None = None
    distinct: int = 0
    members: tuple[tuple[str, "FieldType"], ...] = ()


def of_texts(name: str, texts: Iterable[str], zone: str | None) -> FieldType:
    """The type of a column of a format that has texts only; null is left out. Without texts it is a text."""
    several = sorted(set(texts))
    if not several:
        return FieldType("text", "str", "no row has a value")
    if all(text.lower() in ("true", "false") for text in several):
        return FieldType("truth", "bool", distinct=len(several))
    codes = any(_CODE.match(text) and not _POINT.search(text) for text in several)
    epoch = None if codes else _epoch(name, several)
    if epoch is not None:
        return epoch
    numbers = [] if codes else _decimals(several)
    if numbers:
        return _number(name, numbers)
    return _text(name, several, zone, codes=codes)


def of_values(name: str, values: Sequence[Any], zone: str | None) -> FieldType:
    """The type of a JSON member: its values as `json` reads them, fractions as Decimal; ABSENT where there is none."""
    present = [value for value in values if value is not ABSENT and value is not None]
    of = replace(_of_present(name, present, zone), absent=len(values) > sum(value is not ABSENT for value in values))
    return replace(of, missing=any(value is None for value in values))


def _of_present(name: str, values: Sequence[Any], zone: str | None) -> FieldType:
    kinds = {type(value) for value in values}
    if not kinds:
        return FieldType("other", "", "it is always null")
    if kinds == {bool}:
        return FieldType("truth", "bool", distinct=len(set(values)))
    if kinds <= {int, Decimal}:
        numbers = [Decimal(value) for value in set(values)]
        return _epoch(name, [format(number, "f") for number in numbers]) or _number(name, numbers)
    if kinds == {str}:
        several = sorted(set(values))
        if all(text.isdigit() for text in several) and (epoch := _epoch(name, several)) is not None:
            return epoch
        decimals = _decimals(several) if any(_POINT.search(text) for text in several) else []
        return _number(name, decimals, decimal=True) if decimals else _text(name, several, zone)
    if kinds == {list}:
        items = of_values(name, [item for value in values for item in value], zone)
        if not items.annotation:
            return replace(items, kind="other", note=items.note if any(values) else "it is always empty")
        item = f"{items.annotation} | None" if items.missing else items.annotation
        return FieldType("struct" if items.kind == "struct" else "other", f"list[{item}]", items.note, members=items.members)
    if kinds == {dict}:
        return _struct(values, zone)
    return FieldType("other", "", f"it holds values of several types: {', '.join(sorted(map(_json_type, kinds)))}")


def _struct(objects: Sequence[Mapping[str, Any]], zone: str | None) -> FieldType:
    members = members_of(objects, zone)
    if not any(member.annotation for member in members.values()):
        return FieldType("other", "", "it is an empty object")
    return FieldType("struct", STRUCT, members=tuple(members.items()))


def members_of(objects: Sequence[Mapping[str, Any]], zone: str | None) -> dict[str, FieldType]:
    """The types of all members of these objects, by key, in the order in which keys first occur."""
    keys = dict.fromkeys(key for object_ in objects for key in object_)
    return {key: of_values(key, [object_.get(key, ABSENT) for object_ in objects], zone) for key in keys}


def _number(name: str, numbers: Sequence[Decimal], *, decimal: bool = False) -> FieldType:
    """An integer, money as a decimal, any other number as a double."""
    distinct = len(numbers)
    scale = max(max(0, -int(number.normalize().as_tuple().exponent)) for number in numbers)
    written = max(max(0, -int(number.as_tuple().exponent)) for number in numbers)
    whole = max(number.adjusted() + 1 for number in numbers)
    if written == 0 and not decimal:
        if all(-(2**63) <= number < 2**63 for number in numbers):
            return FieldType("integer", "int", distinct=distinct)
        if whole <= _DIGITS:
            return FieldType("decimal", "Annotated[Decimal, Scale(0)]", "integers of more than 64 bits", distinct=distinct)
    fixed = written >= _FIXED and len({number.as_tuple().exponent for number in numbers}) == 1 < len(numbers)
    if (decimal or fixed or _MONEY.search(name)) and scale <= _DECIMAL_SCALE and whole + max(scale, 2) <= _DIGITS:
        digits = max(written if written <= _DECIMAL_SCALE else scale, 2)
        return FieldType("decimal", f"Annotated[Decimal, Scale({digits})]", f"{digits} digits after the point", distinct=distinct)
    return FieldType("double", "float", distinct=distinct)


def _epoch(name: str, texts: Sequence[str]) -> FieldType | None:
    """A time as a number since 1970, if the name is one of a time, and all numbers are plausible times in one unit."""
    if not _TIMES.search(name):
        return None
    low, high = PLAUSIBLE
    for unit in ("s", "ms", "us", "ns"):
        times = [*_values(Annotated[datetime, Epoch(unit)], texts)]
        if len(times) == len(texts) and all(low <= time < high for time in times):
            note = f'a number since 1970 in the unit "{unit}", by its size'
            return FieldType("time", f'Annotated[datetime, Epoch("{unit}")]', note, span=span_of(times), distinct=len(times))
    return None


def _text(name: str, texts: Sequence[str], zone: str | None, *, codes: bool = False) -> FieldType:
    """A time, a date, a UUID, or else a text."""
    distinct = len(texts)
    times = [*_values(datetime, texts)]
    if len(times) == distinct:
        return FieldType("time", "datetime", span=span_of(times), distinct=distinct)
    where = zone or "UTC"
    guess = _guess(zone)
    times = [*_values(Annotated[datetime, Zone(where)], texts)]
    if len(times) == distinct:
        return FieldType("time", f'Annotated[datetime, Zone("{where}")]', guess, span=span_of(times), distinct=distinct)
    dates = [*_values(date, texts)]
    if len(dates) == distinct:
        return FieldType("date", "date", span=span_of(dates), distinct=distinct)
    if (pattern := _pattern(name, texts, where, guess)) is not None:
        return pattern
    if len([*_values(UUID, texts)]) == distinct:
        return FieldType("text", "UUID", distinct=distinct)
    note = "digits with leading zeros are a code" if codes else ""
    return FieldType("text", "str", "a time of day" if are_clocks(texts) else note, distinct=distinct)


def are_clocks(texts: Iterable[str]) -> bool:
    """Whether each text is a time of day."""
    return all(_CLOCK.fullmatch(text) for text in texts)


def of_day_and_clock(texts: Iterable[str], zone: str | None) -> FieldType:
    """The type of a column of days and times of day with a space between them; a text, if they are written in no known way."""
    several = sorted(set(texts))
    days = [pattern for pattern in PATTERNS if not {"H", "I"} & set(Format(pattern).directives)]
    patterns = [f"{day} {clock}" for day in days for clock in _CLOCKS]
    return _pattern("", several, zone or "UTC", _guess(zone), patterns) or of_texts("time", several, zone)


def _guess(zone: str | None) -> str:
    return "" if zone else "no zone is written: UTC is a guess"


def _pattern(name: str, texts: Sequence[str], zone: str, guess: str, patterns: Sequence[str] = PATTERNS) -> FieldType | None:
    """A time or date in the first of the patterns that fits all texts."""
    fits = []
    for pattern in patterns:
        if pattern.isalnum() or (texts[0].isdigit() and not _TIMES.search(name)):
            continue
        form = Format(pattern)
        if "H" in form.directives or "I" in form.directives:
            zoned = {"z", "Z"} & set(form.directives)
            marks = f'Format("{pattern}")' + ("" if zoned else f', Zone("{zone}")')
            annotation = Annotated[datetime, form] if zoned else Annotated[datetime, form, Zone(zone)]
            kind: Kind = "time"
        else:
            zoned, marks, annotation, kind = {"none"}, f'Format("{pattern}")', Annotated[date, form], "date"
        times = [*_values(annotation, texts)]
        if len(times) == len(texts):
            fits.append((pattern, kind, marks, times, "" if zoned else guess))
    if not fits:
        return None
    pattern, kind, marks, times, note = fits[0]
    others = " or ".join(f'"{other[0]}"' for other in fits[1:] if other[3] != times)
    notes = [*([note] if note else []), *([f"{others} would fit, too"] if others else [])]
    bare = "datetime" if kind == "time" else "date"
    return FieldType(kind, f"Annotated[{bare}, {marks}]", "; ".join(notes), span=span_of(times), distinct=len(times))


def _values(annotation: Any, texts: Iterable[str]) -> Iterator[Any]:
    """The values of the texts up to the first that a field of this type does not read."""
    read = _reader(annotation)
    for text in texts:
        try:
            yield read(text)
        except Reject:
            return


@lru_cache(maxsize=256)
def _reader(annotation: Any) -> Read:
    return reader(event_fields(msgspec.defstruct("Probe", [("value", annotation)], bases=(Event,), frozen=True))[0])


def _decimals(texts: Sequence[str]) -> list[Decimal]:
    """The numbers that the texts write; none if one of them writes no number."""
    try:
        return [decimal_of_text(text) for text in texts]
    except Reject:
        return []


def span_of(times: Sequence[date]) -> tuple[datetime, datetime]:
    """The first and the last of times; a date is its midnight in UTC."""
    several = [time if isinstance(time, datetime) else datetime(time.year, time.month, time.day, tzinfo=UTC) for time in times]
    return min(several), max(several)


def _json_type(of: type) -> str:
    return {str: "text", dict: "object", list: "array", bool: "boolean"}.get(of, "number")
