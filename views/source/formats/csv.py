"""CSV (RFC 4180): one value is one row of the declared columns; or a header with the columns' names, and one row.

* A field takes the column of its name (its JSON key, where that differs). Other columns may hold anything.
* Texts become values as in tandem.views.source.fields.text_values. A text of `null`, which is the empty text unless declared, is
  null in an Optional field, and missing in any other than a str, which takes it as it is written.
* A value is rejected unless it is, after a header, exactly one row with exactly these columns. With
  `max_events_per_record` a value holds several such rows.
* A byte that is not UTF-8 rejects a row only in a column that a field takes.
* A header names columns in any order; a column that a field takes must occur once.
* A quoted text may contain delimiters, line ends and doubled quotes. A quote inside an unquoted text is an ordinary character;
  with `quote=None` every quote is.
* A column that `join` makes has the texts of other columns, with a space between them; a null of one of them is its null.
* A line end at the end and a byte order mark at the start are not part of any text.

Python's csv module reads rows with quotes.

`tsv` reads rows with escapes instead of quotes (views/source/formats/row_escapes.py).
"""

import csv as rows
import io
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import fields as options
from functools import lru_cache, partial
from threading import Lock
from types import MappingProxyType
from typing import Any, Final

from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError, listed
from tandem.views.source.event import Event, Field
from tandem.views.source.fields.broken_rows import BrokenRow, each_row
from tandem.views.source.fields.named_fields import builder
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.text_values import THOUSANDS, NumberMarks, Read, check_text, reader, text_fields, with_damage
from tandem.views.source.format import Listed, Parse
from tandem.views.source.formats.row_escapes import reader_of_escapes, rows_without_quotes

_DELIMITER = re.compile(r'[^\w\s"\ufeff]|\t| ', re.ASCII)
_BYTE_ORDER_MARK: Final = "\ufeff"
_BYTES_MARK: Final = _BYTE_ORDER_MARK.encode()
_HEADERS: Final = 64
"""The number of parsed headers in the cache; a log mostly has one header."""
_LIMITED: Final = Lock()
_TSV_NULL: Final = (r"\N",)

Row = list[str]
Take = Callable[[Row], dict[str, Any]]
"""From a row to the values of the event's fields by key; raises Reject."""
Columns = tuple[Take, Take]
"""The Take of rows in UTF-8, and the Take of other rows, which checks each text."""


@dataclass(frozen=True, repr=False)
class Csv:
    """A decoder of rows with these `columns`, or with the columns that the first row of a value names (`header`).

    The texts of `null` stand for a missing value. `quote` and `escape` are the character that encloses a text and the character
    before what would end a text; None if there is none. `decimal` is the character before the fraction of a number, `thousands`
    the one between groups of three digits before it; empty if there is none. `join` makes columns from others: a name and the
    columns whose texts, with a space between them, are its text.

    Raises DefinitionError if both or neither of columns and header are present, if columns have no names or equal names, or if
    another parameter is invalid.
    """

    columns: tuple[str, ...] = ()
    delimiter: str = ","
    header: bool = False
    null: tuple[str, ...] = ("",)
    quote: str | None = '"'
    escape: str | None = None
    decimal: str = "."
    join: tuple[tuple[str, tuple[str, ...]], ...] = ()
    thousands: str = ""

    def __post_init__(self) -> None:
        """Check all of them."""
        for name, parts in self.join:
            named = all(isinstance(text, str) and text for text in (name, *parts))
            if not named or len(set(parts)) < max(2, len(parts)):
                raise DefinitionError(
                    f"csv: join {dict(self.join)!r} is not a name with at least two columns, such as {{'at': ('date', 'time')}}"
                )
        named = isinstance(self.columns, tuple) and all(isinstance(column, str) and column for column in self.columns)
        if self.header not in (True, False) or self.header == (self.columns != ()):
            raise DefinitionError("csv: give either columns=('id', 'at'), or header=True for values whose first row names them")
        if not self.header and (not named or len(set(self.columns)) < len(self.columns)):
            raise DefinitionError(f"csv: columns {self.columns!r} are not a tuple of names, each once, such as ('id', 'at')")
        if not isinstance(self.delimiter, str) or not _DELIMITER.fullmatch(self.delimiter):
            raise DefinitionError(f"csv: delimiter {self.delimiter!r} is not one character such as ',' ';' '|' or a tab")
        if not isinstance(self.null, tuple) or not all(isinstance(text, str) for text in self.null):
            raise DefinitionError(f"csv: null {self.null!r} is not a tuple of texts such as ('NA', '')")
        if self.quote not in ('"', None):
            raise DefinitionError(
                f"csv: quote {self.quote!r} is neither '\"' nor None, with which quotes are ordinary characters"
            )
        if self.decimal not in (".", ","):
            raise DefinitionError(f"csv: decimal {self.decimal!r} is neither '.' nor ','")
        if self.thousands and (self.thousands not in THOUSANDS or self.thousands == self.decimal):
            raise DefinitionError(
                f"csv: thousands {self.thousands!r} is not one of {listed('', map(repr, THOUSANDS))} other than the decimal "
                f"{self.decimal!r}"
            )
        if self.escape not in ("\\", None) or (self.escape and (self.quote or self.delimiter != "\t")):
            raise DefinitionError(
                f"csv: escape {self.escape!r} is neither None nor the backslash of tsv(...), whose texts have no quotes"
            )

    def __repr__(self) -> str:
        """The fields, those at a later option's default left out: it is a part of fingerprints."""
        texts = [f"{name}={getattr(self, name)!r}" for name in ("columns", "delimiter", "header")]
        texts += [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in options(self)[3:]
            if getattr(self, field.name) != field.default
        ]
        return f"Csv({', '.join(texts)})"

    def parser(self, event: type[Event]) -> Parse:
        """A function from one row to one event; raises DefinitionError if the event type needs a column that is not declared."""
        several = self.listed(event)

        def parse(value: bytes) -> Any:
            parts = several.split(value)
            if len(parts) != 1:
                raise Reject("format", f"{len(parts)} rows {'after the header' if self.header else 'in one value'}, not 1")
            return several.parse(parts[0])

        return parse

    def listed(self, event: type[Event]) -> Listed:
        """Values of several rows, one event each; raises DefinitionError as `parser` does."""
        fields = text_fields(event, "a CSV row")
        build = builder(event)  # the readers have cut the texts of times
        read_text = reader_of_escapes if self.escape else reader
        numbers = NumberMarks(self.decimal, self.thousands)
        readers = {field.key: read_text(field, empty=self.null, numbers=numbers) for field in fields}
        taken = lru_cache(maxsize=_HEADERS)(partial(_take, fields, readers, self))
        if unused := next((name for name, _ in self.join if name not in readers), None):
            raise DefinitionError(
                f"csv: join makes a column {unused!r}, which no field of {event.__name__} takes; "
                f"fields: {listed(unused, readers)}"
            )
        if not self.header:
            for field in fields:
                if field.required and (column := self.missing(field.key, self.columns)):
                    have = listed(column, self.columns)
                    raise DefinitionError(f"{event.__name__}.{field.name}: there is no column {column!r}; columns: {have}")

        def split(value: bytes) -> list[tuple[Take, Row]]:
            try:
                text, damaged = value.decode(), False
            except UnicodeDecodeError:
                text, damaged = with_damage(value), True
            text = text.removeprefix(_BYTE_ORDER_MARK)
            table = self._table(text)
            if self.header and not table:
                raise Reject("format", "there is no header")
            header = table.pop(0) if self.header else self.columns
            if isinstance(header, BrokenRow):
                raise Reject("format", header.detail)
            take = taken(tuple(header))[damaged]
            return [(row.refuse, [row.text]) if isinstance(row, BrokenRow) else (take, row) for row in table]

        return Listed(split, lambda part: build(part[0](part[1])), self._row_text)

    def parts(self, key: str) -> tuple[str, ...]:
        """The columns from which the field with this key has its text."""
        return dict(self.join).get(key, (key,))

    def missing(self, key: str, columns: tuple[str, ...]) -> str | None:
        """The first column that the field with this key needs and that is not among these."""
        return next((part for part in self.parts(key) if part not in columns), None)

    def _table(self, text: str) -> list[Row | BrokenRow]:
        if not self.quote:
            return [*rows_without_quotes(text, self.delimiter, self.escape)]
        try:
            return [*rows_with_quotes(text, self.delimiter)]
        except Reject:
            delimiter = self.delimiter.encode()
            return each_row(
                text,
                lambda row: rows_with_quotes(row, self.delimiter),
                lambda line, inside: quote_is_open(line, delimiter, inside=inside),
            )

    def _row_text(self, part: tuple[Take, Row]) -> bytes:
        """A row for the quarantine, its texts without quotes."""
        return self.delimiter.join(part[1]).encode(errors="surrogateescape")

    def __str__(self) -> str:
        columns = {"columns": self.columns or None, "header": self.header}
        further = {
            "decimal": None if self.decimal == "." else self.decimal,
            "thousands": self.thousands or None,
            "join": dict(self.join) or None,
        }
        if self.escape:
            return call("tsv", **columns, null=None if self.null == _TSV_NULL else self.null, **further)
        delimiter, null = None if self.delimiter == "," else self.delimiter, None if self.null == ("",) else self.null
        written = call("csv", columns=columns["columns"], delimiter=delimiter, header=self.header, null=null, **further)
        return written if self.quote else f"{written[:-1]}, quote=None)"


def csv(
    *,
    columns: tuple[str, ...] = (),
    delimiter: str = ",",
    header: bool = False,
    null: tuple[str, ...] = ("",),
    quote: str | None = '"',
    decimal: str = ".",
    thousands: str = "",
    join: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Csv:
    """Decode CSV: one value is one row of these columns in this order; or, with `header`, a row of column names and one row.

    `null` are the texts that stand for a missing value, such as `("NA", "")`. With `quote=None` quotes are ordinary characters.
    With `decimal=","` numbers have a decimal comma, as in `-1,74`; a point in a number is then a reject. With `thousands="."` a
    point may stand between groups of three digits before the fraction, as in `1.234,50`; at any other place it is a reject.
    `join={"at": ("date", "time")}` makes a column `at`: the texts of these columns with a space between them, or a null if one of
    the texts is a null.
    With `max_events_per_record`, a value holds several rows.
    """
    return Csv(columns, delimiter, header, null, quote, None, decimal, _joins("csv", join), thousands)


def tsv(
    *,
    columns: tuple[str, ...] = (),
    header: bool = False,
    null: tuple[str, ...] = _TSV_NULL,
    decimal: str = ".",
    thousands: str = "",
    join: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Csv:
    """Decode tab-separated rows with backslash escapes, as PostgreSQL's COPY, MySQL's INTO OUTFILE and Hadoop write them.

    Quotes are ordinary characters. The parameters are those of `csv`, which also reads tabs without escapes.
    """
    return Csv(columns, "\t", header, null, None, "\\", decimal, _joins("tsv", join), thousands)


def _joins(decoder: str, join: Mapping[str, Sequence[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The columns by name, in one order: it is a part of fingerprints."""
    if not isinstance(join, Mapping) or any(
        not isinstance(name, str) or isinstance(parts, str) or not isinstance(parts, Sequence) for name, parts in join.items()
    ):
        raise DefinitionError(f"{decoder}: join {join!r} is not a dict of names and columns, such as {{'at': ('date', 'time')}}")
    return tuple(sorted((name, tuple(parts)) for name, parts in join.items()))


def quote_is_open(line: bytes, delimiter: bytes, *, inside: bool) -> bool:
    """Whether a quoted text goes on after this line of a file, which begins a row, or with `inside` goes on in a quoted text."""
    place = 0 if inside else len(_BYTES_MARK) if line.startswith(_BYTES_MARK) else 0
    while True:
        if inside:
            place = line.find(b'"', place) + 1
            if not place:
                return True
            if line[place : place + 1] == b'"':
                place += 1
                continue
        elif line[place : place + 1] == b'"':
            inside = True
            place += 1
            continue
        inside = False
        place = line.find(delimiter, place) + len(delimiter)
        if place < len(delimiter):
            return False


def _take(fields: tuple[Field, ...], readers: Mapping[str, Read], decoder: Csv, columns: tuple[str, ...]) -> Columns:
    """The readers of rows with these columns. Raises Reject if the columns do not fit the fields: the header is faulty."""
    wanted, joined = [], []
    for field in fields:
        parts = decoder.parts(field.key)
        if missing := decoder.missing(field.key, columns):
            if field.required:
                raise Reject("missing_field", f"the header has no column {missing}")
            continue
        if repeated := next((part for part in parts if columns.count(part) > 1), None):
            raise Reject("repeated_key", f"column {repeated} occurs {columns.count(repeated)} times in the header")
        if len(parts) == 1:
            wanted.append((field.key, columns.index(field.key), readers[field.key]))
        else:
            joined.append((field.key, [columns.index(part) for part in parts], readers[field.key]))
    places = [(key, index) for key, index, _ in wanted] + [(key, index) for key, several, _ in joined for index in several]

    def take(row: Row) -> dict[str, Any]:
        if not row and len(columns) == 1:
            row = [""]  # a row of one empty text is an empty line, for which the csv module returns no texts
        if len(row) != len(columns):
            raise Reject("format", f"{len(row)} columns, not {len(columns)}")
        values = {key: read(row[index]) for key, index, read in wanted}
        for key, indexes, read in joined:
            texts = [row[index] for index in indexes]
            values[key] = read(next((text for text in texts if text in decoder.null), " ".join(texts)))
        return values

    def check_and_take(row: Row) -> dict[str, Any]:
        for key, index in places:
            if index < len(row):
                check_text(key, row[index])
        return take(row)

    return take, check_and_take


def rows_with_quotes(text: str, delimiter: str) -> list[Row]:
    """The rows of a text, an empty line as a row without texts. Raises Reject for a quote at a wrong place, or without an end."""
    if text and '"' not in text and "\r" not in text:  # as the csv module does, in a fraction of its time
        return [line.split(delimiter) if line else [] for line in text.removesuffix("\n").split("\n")]
    table: list[Row] = []
    with _LIMITED:
        # The csv module's limit belongs to the whole process: other code, or another thread, must not decide what is an event.
        limit = rows.field_size_limit(sys.maxsize)
        try:
            lines = io.StringIO(text, newline="") if "\n" in text or "\r" in text or not text else (text,)
            table.extend(rows.reader(lines, delimiter=delimiter, strict=True))
        except rows.Error as error:
            raise Reject("format", f"row {len(table)} is not a CSV row: {error}") from error
        finally:
            rows.field_size_limit(limit)
    return table
