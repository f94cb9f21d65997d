"""Texts of RFC 3339 with digits beyond the microsecond: the further digits are cut, toward the past, so that both copies of a
record whose relay kept microseconds are one event.

msgspec 0.22 rounds them to the nearest microsecond, with a carry into the next second, day or year, and refuses the last half
microsecond of the year 9999. So they are cut before it reads the text.
"""

import re
from typing import Final

_FURTHER: Final = re.compile(r"(:[0-9]{2}\.[0-9]{6})[0-9]+", re.ASCII)
FURTHER_DIGITS: Final = r":[0-9]{2}\.[0-9]{7}|\\u00[23]"
"""The regular expression of bytes of JSON that may be such a time. JSON may write a point, colon or digit as an escape."""
_SHORTEST: Final = len("2026-11-01T08:00:00.1234567Z")
_MINUTE_END: Final = len("2026-11-01T08:00")
_FURTHER_DIGIT: Final = len("2026-11-01T08:00:00.123456")


def cut(text: str) -> str:
    """The text of one time, to the microsecond."""
    if len(text) < _SHORTEST or (text[_MINUTE_END] == ":" and not text[_FURTHER_DIGIT].isdigit()):
        return text
    return _FURTHER.sub(r"\1", text)
