"""A function of the project as decoder: from a value, and the parts of the record that its parameters name, to an event.

With `max_events_per_record` it returns a list of events. Any exception makes a reject.
"""

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

from tandem.views.source.event import Event, event_fields
from tandem.views.source.fields.reasons import Reject, misfit
from tandem.views.source.format import Listed, Parse

_TYPES = (bytes, date, datetime, Decimal, UUID)  # no text is converted to these, as JSON does


def parser(event: type[Event], function: Callable[..., Any]) -> Parse:
    """The function with its result checked: an event of the type, each field of its annotated type.

    The caller turns any exception of the function into a reject. Events nested in the event are checked when they become columns.
    """
    checked = _checked(event, function.__name__)
    return lambda *record: checked(function(*record))


def listed(event: type[Event], function: Callable[..., Any]) -> Listed:
    """The function with its result checked: a list, and each event in it as `parser` checks one."""

    def split(*record: Any) -> list[Any]:
        decoded = function(*record)
        if not isinstance(decoded, list):
            raise Reject("wrong_type", f"{function.__name__} returned a {type(decoded).__name__}, not a list of {event.__name__}")
        return decoded

    return Listed(split, _checked(event, function.__name__))


def _checked(event: type[Event], name: str) -> Callable[[Any], Any]:
    # The constructor of an event checks no types, and a conversion to its own type would run its __post_init__ again.
    checked = msgspec.defstruct(event.__name__, [(one.name, one.annotation) for one in event_fields(event)])

    def check(decoded: Any) -> Any:
        if not isinstance(decoded, event):
            raise Reject("wrong_type", f"{name} returned a {type(decoded).__name__}, not a {event.__name__}")
        try:
            msgspec.convert(decoded, checked, from_attributes=True, builtin_types=_TYPES)
        except msgspec.ValidationError as error:
            raise misfit(error) from error
        return decoded

    return check
