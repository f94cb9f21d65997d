"""A question's parameters as the server takes them."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TypedDict

from tandem.serving.read.provenance import Layer

Key = str | int | float | Decimal | bool | bytes | date | datetime | None
"""A value of a key, of the type that the view has for it; None is NULL."""

Parameters = dict[str, str | list[str]]


class AnswerOptions(TypedDict, total=False):
    """The optional parameters of a question: windows that start in `[start, end)`, columns, layer, release, and freshness.

    `order` has columns, each with a minus if it descends; `min_position` is a position that `send` returns: the answer waits
    until it counts that, and is refused (504, with `retry_after`) if that takes too long. `release` is a ready or standing
    release, which answers as if it were promoted now. `at` gives the versions of a table that were valid then.
    """

    start: datetime
    end: datetime
    at: datetime
    measures: Sequence[str]
    order: Sequence[str]
    layer: Layer
    publication: int
    release: int
    min_position: str


def row_parameters(keys: Mapping[str, Key] | None, asked: AnswerOptions) -> Parameters:
    """The parameters that choose rows and columns of a view."""
    given = keys or {}
    null = [name for name, value in given.items() if value is None]
    named: dict[str, Key] = {
        "from": asked.get("start"),
        "to": asked.get("end"),
        "at": asked.get("at"),
        "measures": ",".join(asked.get("measures", ())) or None,
        "order": ",".join(asked.get("order", ())) or None,
        "layer": asked.get("layer"),
        "publication": asked.get("publication"),
        "release": asked.get("release"),
        "min_position": asked.get("min_position"),
    }
    return {
        **{f"key.{name}": text_of(value) for name, value in given.items() if value is not None},
        **({"null": null} if null else {}),
        **{name: text_of(value) for name, value in named.items() if value is not None},
    }


def waiting_parameters(*, min_position: str | None = None, release: int | None = None) -> Parameters:
    """The parameters of a question that waits until a position is counted, or that asks a release."""
    waiting: Parameters = {} if min_position is None else {"min_position": min_position}
    return waiting if release is None else {**waiting, "release": str(release)}


def text_of(value: Key) -> str:
    """A value as a row in JSON has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return format(value, "f") if isinstance(value, Decimal) else str(value)
