"""An event type: typed, immutable, and the Arrow columns that its fields become.

| field                       | JSON                            | column                                  |
| --------------------------- | ------------------------------- | --------------------------------------- |
| bool                        | true, false                     | bool                                    |
| int                         | integer of 64 bits              | int64                                   |
| float                       | finite number                   | float64                                 |
| Annotated[Decimal, Scale(s)]| number or string                | decimal128(38, s)                       |
| str                         | string                          | string                                  |
| bytes                       | base64 string                   | binary                                  |
| date                        | "2026-11-01"                    | date32                                  |
| datetime                    | ISO 8601 with a zone, or as time_notation says | timestamp(us, UTC)       |
| time                        | "13:45:10.25"                   | int64, microseconds since midnight      |
| timedelta                   | "PT1H30M", "1:30:00", "5400s"   | int64, microseconds                     |
| UUID                        | string                          | string, lower case with hyphens         |
| Enum, Literal               | one of the values               | string or int64, as its values are      |
| list[T]                     | array                           | list                                    |
| dict[str, T]                | object of any keys              | map from string, in the order of keys   |
| msgspec.Struct, Event       | object                          | struct                                  |
| Optional[T]                 | null, or absent with a default  | the same column, null                   |
"""

import enum
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, dataclass_transform, get_args, get_origin
from uuid import UUID

import msgspec
import pyarrow as pa

from tandem.views.errors import DefinitionError
from tandem.views.source.time_notation import CLOCKS, Notation, notation_of
from tandem.views.value_forms import display_text

TIMESTAMP = pa.timestamp("us", tz="UTC")
DECIMAL_DIGITS = 38

_SCALARS: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    date: pa.date32(),
    datetime: TIMESTAMP,
    time: pa.int64(),
    timedelta: pa.int64(),
    UUID: pa.string(),
}
_CONSTRAINTS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz")
SUPPORTED = (
    "bool, int, float, Annotated[Decimal, Scale(n)], str, bytes, date, datetime, time, timedelta, UUID, Enum, Literal, Optional, "
    "list, dict[str, ...], msgspec.Struct"
)


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Event(msgspec.Struct, frozen=True):
    """One typed record of a source: derive from it and annotate the fields.

    `__post_init__` may raise ValueError to send a record to quarantine; msgspec.Meta constraints are honoured.
    """


Rounding = Literal["half_even"]
"""How a Decimal field takes digits beyond its scale: to the nearest, and from the middle to the even digit."""


@dataclass(frozen=True)
class Scale:
    """The number of digits after the point of a Decimal field, 0 to 38: `Annotated[Decimal, Scale(2)]`.

    * Without `rounding` a value with further digits is a reject.
    * With "half_even" it is rounded, and counted as rounded; the field takes doubles, too, by the shortest decimal that is read
      as each.
    """

    digits: int
    rounding: Rounding | None = None

    def __post_init__(self) -> None:
        """Raises DefinitionError for a scale that no column has, or another way to round."""
        if self.rounding not in (None, *get_args(Rounding)):
            raise DefinitionError(f'Scale({self.digits}, rounding={self.rounding!r}): a decimal is rounded by "half_even" or not')
        if type(self.digits) is not int or not 0 <= self.digits <= DECIMAL_DIGITS:
            raise DefinitionError(f"Scale({self.digits!r}): a decimal has 0 to {DECIMAL_DIGITS} digits after the point")


@dataclass(frozen=True)
class Unit:
    """The unit of a field's values: `Annotated[int, Unit("ms")]`. It informs readers and changes no number.

    In a `time` or `timedelta` field it is the unit of numbers: "s", "ms", "us" or "ns", since midnight or of the duration.
    """

    name: str

    def __post_init__(self) -> None:
        """Raises DefinitionError unless the name is a text of one line."""
        if not is_label(self.name):
            raise DefinitionError(f'Unit({self.name!r}): a unit is a text of one line, such as "ms" or "EUR"')


@dataclass(frozen=True)
class Name:
    """The key of a field in JSON, the column in CSV, the field in other formats: `Annotated[float, Name("US Gross")]`.

    It may be any text of one line without quotes and backslashes; views use the field's own name.
    """

    name: str

    def __post_init__(self) -> None:
        """Raises DefinitionError for an invalid key."""
        if not is_label(self.name) or '"' in self.name or "\\" in self.name:
            raise DefinitionError(f"Name({self.name!r}): a key is a text of one line without quotes and backslashes")


@dataclass(frozen=True)
class Field:
    """One field of an event type or of a struct nested in it.

    * `name`: the attribute and column; `key`: the JSON key; `encode_name`: the key that msgspec reads, another if Name says so.
    * `type`: the bare Python type, without Annotated and Optional; `annotation`: the whole annotation.
    * `default`, `factory`: NODEFAULT if absent.
    * `constraints`: those of msgspec.Meta.
    * `items`: describes a list's elements, or the values of a map, whose type is dict; `fields`: a struct's fields.
    * `notation`: how times are written, None unless annotations say so.
    * `rounding`: that of Scale.
    * `unit`: that of Unit, or the microseconds of a time of day or duration; `doc`: the description of msgspec.Meta; both may be
      empty.
    """

    name: str
    key: str
    type: Any
    arrow: pa.DataType
    optional: bool = False
    required: bool = True
    default: Any = msgspec.NODEFAULT
    factory: Any = msgspec.NODEFAULT
    constraints: tuple[tuple[str, Any], ...] = ()
    items: "Field | None" = None
    fields: "tuple[Field, ...]" = ()
    unit: str = ""
    doc: str = ""
    annotation: Any = None
    notation: Notation | None = None
    rounding: Rounding | None = None
    encode_name: str = ""


def any_field(fields: Iterable[Field], test: Callable[[Field], bool]) -> bool:
    """Whether a field passes the test, or one in it, at any depth."""
    return any(
        test(field) or any_field(field.fields, test) or (field.items is not None and any_field((field.items,), test))
        for field in fields
    )


@lru_cache(maxsize=4096)  # a string annotation can be resolved only while its module is imported
def event_fields(event: type[msgspec.Struct]) -> tuple[Field, ...]:
    """The fields of an event type in their declared order; raises DefinitionError on a type that is not supported."""
    if not (isinstance(event, type) and issubclass(event, msgspec.Struct)):
        raise DefinitionError(f"{display_text(event)} is not an event type: derive a class from tandem.Event")
    return _struct_fields(event, event.__name__, ())


def event_schema(event: type[msgspec.Struct]) -> pa.Schema:
    """The Arrow columns of an event type, in the order of its fields."""
    return pa.schema([(field.name, field.arrow) for field in event_fields(event)])


def _struct_fields(struct: type[msgspec.Struct], place: str, outer: tuple[type, ...]) -> tuple[Field, ...]:
    if struct in outer:
        raise DefinitionError(f"{place}: {struct.__name__} contains itself; a column needs a fixed depth")
    try:
        infos = msgspec.structs.fields(struct)
    except (TypeError, NameError) as error:
        raise DefinitionError(f"{place}: {error}") from error
    if not infos:
        raise DefinitionError(f"{place} has no fields")
    seen: dict[str, str] = {}
    fields = []
    for info in infos:
        if info.name.startswith("_"):
            raise DefinitionError(f"{place}.{info.name}: a field's name does not start with _")
        if (other := seen.setdefault(info.name.casefold(), info.name)) != info.name:
            raise DefinitionError(f"{place}: fields {other} and {info.name} differ only in case, which SQL ignores")
        fields.append(_field(info, f"{place}.{info.name}", (*outer, struct)))
    _check_keys(struct, fields, place)
    try:
        # msgspec refuses types that it does not support, and resolves annotations, now, while the project's modules can be
        # imported.
        msgspec.json.Decoder(struct)
    except TypeError as error:
        raise DefinitionError(f"{place}: {error}") from error
    return tuple(fields)


def _check_keys(struct: type[msgspec.Struct], fields: Sequence[Field], place: str) -> None:
    keys = [field.key for field in fields]
    if repeated := [key for key in keys if keys.count(key) > 1]:
        raise DefinitionError(f"{place}: two fields have the key {repeated[0]!r}")
    if struct.__struct_config__.array_like and any(field.key != field.encode_name for field in fields):
        raise DefinitionError(f"{place}: {struct.__name__} is array_like, so its fields have no keys that Name could give")


def _field(info: msgspec.structs.FieldInfo, place: str, outer: tuple[type, ...]) -> Field:
    described = _described(info.type, place, outer)
    if described.key and info.encode_name != info.name:
        raise DefinitionError(f"{place}: Name({described.key!r}) and msgspec's name {info.encode_name!r} contradict each other")
    key = described.key or info.encode_name
    return replace(
        described,
        name=info.name,
        key=key,
        items=described.items and _with_names(described.items, f"{info.name}[]", f"{key}[]"),
        encode_name=info.encode_name,
        required=info.required,
        default=info.default,
        factory=info.default_factory,
        annotation=info.type,
    )


def _with_names(items: Field, name: str, key: str) -> Field:
    """The items of a list or map with names that rejects show: `prices[]`, and `prices[][]` within."""
    inner = items.items and _with_names(items.items, f"{name}[]", f"{key}[]")
    return replace(items, name=name, key=key, encode_name=key, items=inner)


def _described(annotation: Any, place: str, outer: tuple[type, ...]) -> Field:
    bare, marks, optional = _bare(annotation, place)
    scale = next((mark for mark in marks if isinstance(mark, Scale)), None)
    unit = next((mark.name for mark in marks if isinstance(mark, Unit)), "")
    constraints = {name: getattr(mark, name) for mark in marks if isinstance(mark, msgspec.Meta) for name in _CONSTRAINTS}
    described = Field(
        name="",
        key=next((mark.name for mark in marks if isinstance(mark, Name)), ""),
        type=bare,
        arrow=_SCALARS.get(bare, pa.null()) if isinstance(bare, type) else pa.null(),
        optional=optional,
        constraints=tuple((name, value) for name, value in constraints.items() if value is not None),
        notation=notation_of(marks, bare, place, unit),
        unit="us" if bare in CLOCKS else unit,
        doc=next((mark.description for mark in marks if isinstance(mark, msgspec.Meta) and mark.description), ""),
    )
    if (scale is not None) != (bare is Decimal):
        if bare is Decimal:
            raise DefinitionError(f"{place}: a Decimal declares its scale, for example Annotated[Decimal, Scale(2)]")
        raise DefinitionError(f"{place}: Scale belongs to a Decimal, not to {_name(bare)}")
    if scale is not None:
        return replace(described, arrow=pa.decimal128(DECIMAL_DIGITS, scale.digits), rounding=scale.rounding)
    if get_origin(bare) is list:
        items = _described(get_args(bare)[0], f"{place}[]", outer)
        if items.key:
            raise DefinitionError(f"{place}[]: Name({items.key!r}) belongs to a field, not to what a list holds")
        return replace(described, type=list, arrow=pa.list_(items.arrow), items=items)
    if get_origin(bare) is dict:
        keys, values = get_args(bare)
        if keys is not str:
            raise DefinitionError(f"{place}: the keys of a map are texts, as in dict[str, int]; got {_name(bare)}")
        items = _described(values, f"{place}[]", outer)
        if items.key:
            raise DefinitionError(f"{place}[]: Name({items.key!r}) belongs to a field, not to what a map holds")
        return replace(described, type=dict, arrow=pa.map_(pa.string(), items.arrow), items=items)
    if bare is dict:
        raise DefinitionError(f"{place}: a map declares what it holds, for example dict[str, str]")
    if bare is list:
        raise DefinitionError(f"{place}: a list declares what it holds, for example list[str]")
    if get_origin(bare) is Literal:
        return replace(described, arrow=_choice_type(get_args(bare), place))
    if isinstance(bare, type) and issubclass(bare, enum.Enum):
        return replace(described, arrow=_choice_type([member.value for member in bare], place))
    if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
        fields = _struct_fields(bare, place, outer)
        return replace(described, arrow=pa.struct([(f.name, f.arrow) for f in fields]), fields=fields)
    if described.arrow == pa.null():
        raise DefinitionError(f"{place}: type {_name(bare)} is not supported; supported are {SUPPORTED}")
    return described


def _bare(annotation: Any, place: str) -> tuple[Any, list[Any], bool]:
    """Split an annotation with Annotated and Optional: the bare type, the metadata, whether it may be null."""
    marks: list[Any] = []
    optional = False
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation, *outer_marks = get_args(annotation)
            marks += outer_marks
            if any(isinstance(mark, msgspec.Meta) and mark.tz is False for mark in outer_marks):
                raise DefinitionError(f"{place}: a datetime has a zone; Meta(tz=False) contradicts that")
        elif origin in (Union, types.UnionType):
            others = [a for a in get_args(annotation) if a is not type(None)]
            if len(others) != 1 or len(others) == len(get_args(annotation)):
                raise DefinitionError(f"{place}: type {_name(annotation)} is not supported; supported are {SUPPORTED}")
            annotation, optional = others[0], True
        elif origin is Literal and None in get_args(annotation):
            values = tuple(value for value in get_args(annotation) if value is not None)
            annotation, optional = Literal[values], True
        else:
            return annotation, marks, optional


def _choice_type(values: Any, place: str) -> pa.DataType:
    kinds = {type(value) for value in values}
    if kinds == {str}:
        return pa.string()
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in values):
        return pa.int64()
    raise DefinitionError(f"{place}: the values of an Enum or Literal are all strings or all 64-bit integers")


def is_label(text: Any) -> bool:
    """Whether the value is a text of one line that is not empty."""
    return isinstance(text, str) and bool(text) and text.isprintable()


def _name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
