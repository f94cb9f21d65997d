"""Rows of typed columns as rows of CSV or TSV, without loss; where that cannot be, the row is refused."""

import base64
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from tandem.cli.records.parquet.parquet_values import EncodeRow
from tandem.views.errors import TandemError, listed
from tandem.views.source.event import Field, event_fields
from tandem.views.source.fields.time_reader import is_time
from tandem.views.source.formats.csv import Csv
from tandem.views.source.source import Source

_BYTE_ORDER_MARK: Final = "\ufeff"
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def csv_encoder(source: Source, decoder: Csv, names: Sequence[str], file: str) -> tuple[bytes, EncodeRow]:
    """What each value of the source begins with, its header; and the function from rows with these columns to rows of CSV.

    Raises TandemError if the decoder has other columns.
    """
    columns = names if decoder.header else decoder.columns
    if missing := next((name for name in columns if name not in names), None):
        raise TandemError(
            f"{file} has no column {missing!r}, which {decoder} reads; columns: {listed(missing, names)}", code="file-unusable"
        )
    if further := next((name for name in names if name not in columns), None):
        raise TandemError(f"{file} has a column {further!r}, for which {decoder} has no place: drop it", code="file-unusable")
    fields = {field.key: field for field in event_fields(source.event)}
    joined = {part for _, parts in decoder.join for part in parts}
    order = [(names.index(name), name, fields.get(name), name in joined) for name in columns]
    delimiter = decoder.delimiter

    def join_texts(texts: list[str], place: str) -> bytes:
        row = delimiter.join(texts) or ('""' if decoder.quote else "")
        if not row or row.startswith(_BYTE_ORDER_MARK):
            raise TandemError(
                f"{place}: {decoder} has no row that {'begins with a byte order mark' if row else 'is empty'}",
                code="file-unusable",
            )
        return row.encode()

    def encode(row: Sequence[Any], place: str) -> bytes:
        texts = [_text(row[at], field, decoder, f"column {name!r} of {place}", part=part) for at, name, field, part in order]
        return join_texts(texts, place)

    if not decoder.header:
        return b"", encode
    return join_texts([_enclose(name, decoder, f"a column's name in {file}") for name in names], file) + b"\n", encode


def _text(value: Any, field: Field | None, decoder: Csv, place: str, *, part: bool) -> str:
    """The text of a value, from which the decoder reads the same value, also as a `part` of a column that `join` makes."""
    is_read = field is not None or part
    takes_any = field is not None and field.type is str and not field.optional
    if value is None:
        null = decoder.null[0] if decoder.null else ""
        if is_read and (not decoder.null or (takes_any and (not decoder.escape or not null))):
            raise TandemError(f"{place} is null, which {decoder} reads as a text: replace it", code="file-unusable")
        return null if decoder.escape else _enclose(null, decoder, place)
    text = _plain(value, place)
    # A time has a point before its fraction.
    if decoder.decimal != "." and isinstance(value, float | Decimal) and not (field is not None and is_time(field)):
        text = text.replace(".", decoder.decimal)
    enclosed = _enclose(text, decoder, place)
    is_null = is_read and (enclosed if decoder.escape else text) in decoder.null
    if is_null and (part or not (takes_any and (not decoder.escape or not text))):
        raise TandemError(f"{place} is {text!r}, which {decoder} reads as null: replace it", code="file-unusable")
    return enclosed


def _plain(value: Any, place: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, str | int | float | UUID):
        return str(value)
    raise TandemError(f"{place} is a list, struct or map, which a row of CSV cannot hold: cast or drop it", code="file-unusable")


def _enclose(text: str, decoder: Csv, place: str) -> str:
    """The text with what the decoder needs around or in it."""
    if decoder.escape:
        return text.translate(_ESCAPES)
    if decoder.quote:
        quoted = any(part in text for part in (decoder.delimiter, '"', "\r", "\n", _BYTE_ORDER_MARK))
        return '"' + text.replace('"', '""') + '"' if quoted else text
    if any(part in text for part in (decoder.delimiter, "\r", "\n")):
        raise TandemError(f"{place} holds a delimiter or a line end, which {decoder} reads as its end", code="file-unusable")
    return text
