"""Numbers as texts and formats write them: what is read without loss is read, and nothing else.

A text of a number is ASCII digits with a sign, a point and an exponent, each optional; leading zeros change nothing. It has no
spaces, no separators of thousands, no digits of other scripts, no words such as NaN.
"""

import re
from decimal import Decimal, InvalidOperation
from typing import Final

from tandem.views.source.fields.reasons import Reject

NUMBER: Final = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
"""The regular expression of a number in a text."""

ODD_DECIMAL: Final = r'"[0-9+.eE-]*[ _\\\x80-\xff][0-9a-fA-Fnrtu+._ \\\x80-\xff-]*"'
"""The regular expression of bytes of JSON that may be a text that Python's Decimal reads and that is not a number here."""

_NUMBER: Final = re.compile(NUMBER, re.ASCII)
_LONGEST: Final = 19
"""The digits of the longest integer of 64 bits."""


def integer_of_text(text: str) -> int:
    """The integer that a text writes, also as 5.0 or 1e3. Raises Reject."""
    return int(text) if len(text) < _LONGEST and text.isdigit() and text.isascii() else integer_of(decimal_of_text(text))


def integer_of(number: Decimal | float) -> int:
    """The integer that a number is. Raises Reject if it has a fraction, or cannot be one of 64 bits."""
    exact = Decimal(number)
    if exact == 0:
        return 0
    if exact.is_finite() and exact.adjusted() < _LONGEST:
        if exact != exact.to_integral_value():
            raise Reject("invalid_value", "not an integer")
        return int(exact)
    raise Reject("out_of_range", "not an integer of 64 bits")


def decimal_of_text(text: str) -> Decimal:
    """The decimal that a text writes, with all its digits. Raises Reject."""
    if not _NUMBER.fullmatch(text):
        raise Reject("invalid_value", "not a number")
    try:
        return Decimal(text)
    except InvalidOperation:
        raise Reject("out_of_range", "a number with an exponent beyond any decimal") from None


def float_of_text(text: str) -> float:
    """The double that is nearest to what a text writes, infinite beyond all doubles. Raises Reject."""
    if not _NUMBER.fullmatch(text):
        raise Reject("invalid_value", "not a number")
    return float(text)
