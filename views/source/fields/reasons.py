"""The reasons for a reject: a closed set of codes, and the exception with which a decoder reports one."""

from typing import Literal, get_args

import msgspec

from tandem.views.errors import said_by

Reason = Literal[
    "empty",  # no value, or one of length zero
    "utf8",  # not UTF-8
    "json",  # not exactly one JSON value, or nested too deep
    "repeated_key",  # a declared key twice in one object
    "missing_field",  # a required field is missing
    "wrong_type",  # a value of another type
    "out_of_range",  # beyond 64 bits, not finite, or more digits than the decimal holds
    "no_zone",  # a datetime without a zone
    "invalid_value",  # of the right type, but not allowed: an unknown choice, an impossible date, a failed constraint
    "implausible_time",  # the event time is outside the source's plausible range
    "producer_time",  # the producer's timestamp, where the source needs the broker's
    "refused",  # the event type's own __post_init__, or the project's own decoder, refused
    "kind",  # the record filter could not decide
    "upgrade",  # the project's upgrade of an older version's event raised
    "format",  # not a value of the declared format
    "schema",  # of a schema that the source does not have
    "request",  # a request line without the part that the event needs
    "length",  # a list without events, or of more than the source takes
]
REASONS: tuple[str, ...] = get_args(Reason)

_DETAIL_CHARACTERS = 200


class Reject(Exception):
    """Sends one record to quarantine: a code for counting, and a short sentence about the fault."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        # A message may quote characters that no column can hold, such as a lone surrogate.
        self.detail = detail.encode("utf-8", "backslashreplace").decode()[:_DETAIL_CHARACTERS]


def within(reject: Reject, index: int) -> Reject:
    """The reject of a list, with the index of its faulty event."""
    return Reject(reject.reason, f"event {index}: {reject.detail}")


def refusal(error: BaseException) -> Reject:
    """The reject for a decoder's exception; raises the exception again if it is not about the record."""
    if isinstance(error, Reject):
        return error
    if isinstance(error, MemoryError | KeyboardInterrupt):
        raise error  # out of memory, and Ctrl-C
    return Reject("refused", said_by(error))


_WAYS_ON = (
    ("Expected `datetime`, got `int`", 'Epoch("s"), "ms", "us" or "ns" reads numbers'),
    ("Expected `datetime`, got `float`", 'Epoch("s"), "ms", "us" or "ns" reads numbers'),
    ("Expected `object`, got `array`", "max_events_per_record reads arrays of events"),
)
"""How messages of msgspec begin, and what reads such values; the last if it is the whole message."""


def misfit(error: msgspec.ValidationError) -> Reject:
    """The reject for a message of msgspec; an exception with a cause comes from the event type's own check."""
    text = str(error)
    way_on = next((way for start, way in _WAYS_ON if text == start or (text.startswith(start) and "datetime" in start)), "")
    return Reject(_reason(error), f"{text}; {way_on}" if way_on else text)


def _reason(error: msgspec.ValidationError) -> Reason:
    text = str(error)
    if error.__cause__ is not None:
        return "refused"
    if text.startswith("Object missing required field"):
        return "missing_field"
    if "value out of range" in text or "Number out of range" in text:
        return "out_of_range"
    if text.startswith("Expected `") and ", got `" in text:
        return "wrong_type"
    return "invalid_value"
