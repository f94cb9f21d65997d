"""Texts of RFC 3339 with digits beyond the microsecond: the further digits are cut, toward the past, so that both copies of a
record whose relay kept microseconds are one event.

msgspec 0.22 rounds them to the nearest microsecond, with a carry into the next second, day or year, and refuses the last half
microsecond of the year 9999. So they are cut before it reads the text.
"""

import re
from collections.abc import Iterator
from typing import Final

_FURTHER: Final = re.compile(r"(:[0-9]{2}\.[0-9]{6})[0-9]+", re.ASCII)
_FURTHER_BYTES: Final = re.compile(rb":[0-9]{2}\.[0-9]{7}")
_SEVEN_DIGITS: Final = re.compile(rb"\.[0-9]{7}")
"""What no time without further digits has; a search for it costs a quarter of one for the whole pattern."""
_ESCAPED: Final = re.compile(rb"\\u00[23]")
"""A point, colon or digit as JSON may write it, too."""
_SHORTEST: Final = len("2026-11-01T08:00:00.1234567Z")


def cut(text: str) -> str:
    """The text of one time, to the microsecond."""
    return text if len(text) < _SHORTEST else _FURTHER.sub(r"\1", text)


def may_have_further_digits(json: bytes) -> bool:
    """Whether JSON values may hold a time with digits beyond the microsecond; false for nearly all that hold none."""
    return next(places_of_further_digits(json), None) is not None


def places_of_further_digits(json: bytes) -> Iterator[int]:
    """Where JSON values may hold such a time; the places are in no order."""
    if _SEVEN_DIGITS.search(json) is not None:
        yield from (match.start() for match in _FURTHER_BYTES.finditer(json))
    if b"\\u00" in json:
        yield from (match.start() for match in _ESCAPED.finditer(json))
