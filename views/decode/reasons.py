"""Why a record is not an event: a closed set of codes, and the exception that carries one out of a decoder."""

from collections.abc import Callable
from typing import Any, Literal, get_args

Reason = Literal[
    "empty",  # no value, or one of length zero
    "utf8",  # not UTF-8
    "json",  # not exactly one JSON value, or nested too deep
    "repeated_key",  # a declared key twice in one object
    "missing_field",  # a required field is not there
    "wrong_type",  # a value of another JSON type
    "out_of_range",  # beyond 64 bits, not finite, or more digits than the decimal holds
    "no_zone",  # a datetime without a zone
    "invalid_value",  # of the right type, but not allowed: an unknown choice, a broken date, a failed constraint
    "implausible_time",  # the event time is outside the source's plausible range
    "refused",  # the event type's own __post_init__ said no
    "format",  # not a line of the declared text format
    "request",  # a request line without the part that the event needs
]
REASONS: tuple[str, ...] = get_args(Reason)

_DETAIL_CHARACTERS = 200

Parse = Callable[[bytes], Any]  # one non-empty value -> one struct of the event type; raises Reject


class Reject(Exception):
    """One record's way to quarantine: a code to count by and a short sentence that says what was found."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        # A message may quote what no column can hold, such as a lone surrogate.
        self.detail = detail.encode("utf-8", "backslashreplace").decode()[:_DETAIL_CHARACTERS]
