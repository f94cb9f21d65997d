"""How the numbers of a file are written: with a comma before the fraction, or a sign between groups of three digits."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tandem.views.source.fields.text_values import THOUSANDS

_OTHER: Final = {".": ",", ",": "."}
_WAYS: Final = (
    (",", ""),
    (".", ","),
    (",", "."),
    *((decimal, sign) for sign in THOUSANDS if sign not in _OTHER for decimal in _OTHER),
)
"""The sign before the fraction, and the sign between groups."""
_GROUP: Final = 3
"""The digits after a sign that may as well be thousands as a fraction."""


@dataclass(frozen=True)
class WrittenNumbers:
    """The signs, and the columns of numbers that have one of them."""

    decimal: str = "."
    thousands: str = ""
    columns: frozenset[str] = frozenset()

    @property
    def options(self) -> dict[str, str]:
        """The options of `csv` and `tsv` that differ from their defaults."""
        signs = {"decimal": "" if self.decimal == "." else self.decimal, "thousands": self.thousands}
        return {option: sign for option, sign in signs.items() if sign}

    def plain(self, text: str) -> str:
        """The number with a point, and without signs between its digits."""
        return (text.replace(self.thousands, "") if self.thousands else text).replace(self.decimal, ".")


def number_marks(rows: Sequence[Mapping[str, str]], nulls: Collection[str], delimiter: str) -> WrittenNumbers:
    """The signs with which the rows can mean nothing else; those of plain numbers, if there are none."""
    columns = {name: {row[name] for row in rows} - {*nulls} for name in rows[0]}
    for decimal, thousands in _WAYS:
        if decimal != delimiter and (signed := _columns_with(columns, decimal, thousands, delimiter)):
            return WrittenNumbers(decimal, thousands, frozenset(signed))
    return WrittenNumbers()


def _columns_with(columns: Mapping[str, Collection[str]], decimal: str, thousands: str, delimiter: str) -> set[str]:
    """The columns of numbers with these signs; none if another number has the other sign, or all may be read in another way."""
    point, group = re.escape(decimal), rf"[1-9][0-9]{{0,2}}(?:{re.escape(thousands)}[0-9]{{3}})+|" if thousands else ""
    number = re.compile(rf"[+-]?(?:{group}[0-9]+|(?={point}))(?:{point}[0-9]+)?")
    other = re.compile(rf"[+-]?[0-9]*{re.escape(_OTHER[decimal])}[0-9]+")
    if any(other.fullmatch(text) and not number.fullmatch(text) for texts in columns.values() for text in texts):
        return set()
    numbers = {name: texts for name, texts in columns.items() if texts and all(map(number.fullmatch, texts))}
    sign = thousands or decimal
    if not any(sign in text and _is_certain(text, decimal, thousands, delimiter) for texts in numbers.values() for text in texts):
        return set()
    return {name for name, texts in numbers.items() if any(sign in text or decimal in text for text in texts)}


def _is_certain(text: str, decimal: str, thousands: str, delimiter: str) -> bool:
    """Whether the text can mean nothing else: `1,234` may be thousands or a fraction, but between commas hardly a fraction."""
    if not thousands:
        return len(text.partition(decimal)[2]) != _GROUP
    if thousands == " ":
        return decimal in text  # a number of a telephone or an account has spaces, too
    return decimal in text or text.count(thousands) > 1 or thousands not in _OTHER or thousands == delimiter
