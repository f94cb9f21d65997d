"""Why a record is not an event: a closed set of codes, and the exception that carries one out of a decoder."""

from typing import Literal, get_args

import msgspec

from views.errors import said_by

Reason = Literal[
    "empty",  # no value, or one of length zero
    "utf8",  # not UTF-8
    "json",  # not exactly one JSON value, or nested too deep
    "repeated_key",  # a declared key twice in one object
    "missing_field",  # a required field is not there
    "wrong_type",  # a value of another type
    "out_of_range",  # beyond 64 bits, not finite, or more digits than the decimal holds
    "no_zone",  # a datetime without a zone
    "invalid_value",  # of the right type, but not allowed: an unknown choice, a broken date, a failed constraint
    "implausible_time",  # the event time is outside the source's plausible range
    "producer_time",  # a timestamp of the producer's, where the source counts by the log's
    "refused",  # the event type's own __post_init__, or the project's own decoder, said no
    "kind",  # whether the record is this source's cannot be told
    "upgrade",  # the project's upgrade of an older version's event raised
    "format",  # not a value of the declared format
    "schema",  # of a schema that the source does not hold
    "request",  # a request line without the part that the event needs
    "length",  # a list without events, or of more than the source takes
]
REASONS: tuple[str, ...] = get_args(Reason)

_DETAIL_CHARACTERS = 200


class Reject(Exception):
    """One record's way to quarantine: a code to count by and a short sentence that says what was found."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        # A message may quote what no column can hold, such as a lone surrogate.
        self.detail = detail.encode("utf-8", "backslashreplace").decode()[:_DETAIL_CHARACTERS]


def within(reject: Reject, index: int) -> Reject:
    """A fault of one event of a list, told with its place in it."""
    return Reject(reject.reason, f"event {index}: {reject.detail}")


def refusal(error: BaseException) -> Reject:
    """What a decoder's exception means for the record; raises it again if it is not about the record."""
    if isinstance(error, Reject):
        return error
    if isinstance(error, MemoryError | KeyboardInterrupt):
        raise error  # the machine's fault, and the user's wish
    return Reject("refused", said_by(error))


def misfit(error: msgspec.ValidationError) -> Reject:
    """The reject that msgspec's message stands for; a cause means that the event type's own check raised."""
    return Reject(_reason(error), str(error))


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
