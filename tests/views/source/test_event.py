"""An event type's fields have one Arrow column each, and what has none is refused with a sentence."""

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Optional, Union, cast
from uuid import UUID

import msgspec
import pyarrow as pa
import pytest

from tandem.views.errors import DefinitionError
from tandem.views.source.event import TIMESTAMP, Event, Scale, event_fields, event_schema


class Size(Enum):
    """String choices."""

    SMALL = "s"
    LARGE = "l"


class Mixed(Enum):
    """Choices of no one type."""

    ONE = 1
    TWO = "two"


class Inner(msgspec.Struct):
    """A nested struct."""

    x: float


class Loop(msgspec.Struct):
    """A struct of no fixed depth."""

    inner: "Loop | None" = None


def event_of(annotation: Any) -> type[Event]:
    """An event type with one field of this type."""
    return cast("type[Event]", msgspec.defstruct("Made", [("field", annotation)], bases=(Event,)))


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (bool, pa.bool_()),
        (int, pa.int64()),
        (float, pa.float64()),
        (Annotated[Decimal, Scale(2)], pa.decimal128(38, 2)),
        (str, pa.string()),
        (bytes, pa.binary()),
        (date, pa.date32()),
        (datetime, TIMESTAMP),
        (UUID, pa.string()),
        (Size, pa.string()),
        (Literal["a", "b"], pa.string()),
        (Literal[1, 2] | None, pa.int64()),
        (Literal[-(2**63), 2**63 - 1], pa.int64()),
        (Literal[1, 2, None], pa.int64()),  # noqa: PYI061  users write it
        (Optional[int], pa.int64()),  # noqa: UP045  both spellings of Optional are the subject here
        (Annotated[Decimal, Scale(0)] | None, pa.decimal128(38, 0)),
        (Annotated[int, msgspec.Meta(ge=0)], pa.int64()),
        (list[str | None], pa.list_(pa.string())),
        (list[list[int]], pa.list_(pa.list_(pa.int64()))),
        (dict[str, int | None], pa.map_(pa.string(), pa.int64())),
        (Inner, pa.struct([("x", pa.float64())])),
        (list[Inner] | None, pa.list_(pa.struct([("x", pa.float64())]))),
    ],
)
def test_a_field_type_has_one_column_type(annotation: Any, expected: pa.DataType) -> None:
    """The table of types in the module's docstring holds."""
    assert event_schema(event_of(annotation)).field("field").type == expected


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        (Decimal, "declares its scale"),
        (Annotated[int, Scale(2)], "belongs to a Decimal"),
        (dict[int, str], "the keys of a map are texts, as in dict\\[str, int\\]"),
        (set[int], "set.* is not supported; supported are bool, int"),
        (tuple[int, ...], "is not supported"),
        (Any, "is not supported"),
        (None, "is not supported"),
        (Union[int, str], "is not supported"),  # noqa: UP007  both spellings of a union are the subject here
        (list, "declares what it holds"),
        (list[set[int]], r"\[\]: type set"),
        (Mixed, "all strings or all 64-bit integers"),
        (Literal[1, "a"], "all strings or all 64-bit integers"),
        (Literal[1, 2**63], "all strings or all 64-bit integers"),
        (Literal[1, -(2**63) - 1], "all strings or all 64-bit integers"),
        (Loop, "contains itself"),
        (Annotated[datetime, msgspec.Meta(tz=False)], "has a zone"),
    ],
)
def test_other_types_are_refused_in_a_sentence(annotation: Any, says: str) -> None:
    """A type without a column is an error that names the field and what would be valid."""
    with pytest.raises(DefinitionError, match=f"^Made.field.*{says}"):
        event_schema(event_of(annotation))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: msgspec.defstruct("Made", [("User", str), ("user", str)], bases=(Event,)), "differ only in case"),
        (lambda: msgspec.defstruct("Made", [], bases=(Event,)), "no fields"),
        (lambda: msgspec.defstruct("Made", [("_hidden", str)], bases=(Event,)), "does not start with _"),
        (lambda: int, "not an event type"),
        (lambda: "Made", "not an event type"),
    ],
)
def test_fields_need_names_that_sql_can_tell_apart(make: Callable[[], Any], says: str) -> None:
    """What is no event type, or has names that no table could hold, is refused."""
    with pytest.raises(DefinitionError, match=says):
        event_fields(make())


@pytest.mark.parametrize("digits", [-1, 39])
def test_a_scale_is_one_that_a_decimal_can_have(digits: int) -> None:
    """A Scale beyond 38 digits is refused where it is written."""
    with pytest.raises(DefinitionError, match="0 to 38 digits"):
        Scale(digits)


def test_an_event_does_not_change() -> None:
    """An event is immutable, as the vocabulary says."""
    event = event_of(int)(field=1)
    with pytest.raises(AttributeError):
        event.field = 2  # type: ignore[attr-defined]


def test_a_renamed_field_is_a_column_by_its_attribute() -> None:
    """The JSON key may differ from the column's name."""

    class Renamed(Event, rename="camel"):
        user_id: str

    (field,) = event_fields(Renamed)
    assert (field.name, field.key) == ("user_id", "userId")
