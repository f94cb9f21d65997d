"""The rows of a file, and the decoder that reads them: CSV, JSON, Parquet, or the log of a server."""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tandem.cli.project.infer.day_and_clock import day_and_clock
from tandem.cli.project.infer.field_type import FieldType, Kind, members_of, of_texts
from tandem.cli.project.infer.number_marks import number_marks
from tandem.cli.project.infer.sample import FileSample
from tandem.cli.project.infer.server_logs import log_sample
from tandem.cli.records.binary_kinds import refuse_binary
from tandem.cli.records.input_stream import input_stream
from tandem.cli.records.json_values import begins_collection, begins_values, feature_values, json_values
from tandem.cli.records.lines import stream_lines
from tandem.cli.records.parquet.parquet_values import SUFFIXES, parquet_values
from tandem.views.errors import TandemError
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.formats.csv import quote_is_open, rows_with_quotes
from tandem.views.source.formats.row_escapes import rows_without_quotes

NULLS: Final = ("", "NA", "N/A", "n/a", "NULL", "null", "None", "none", "NaN", "nan", "-", "--", "?", ".", "\\N", "#N/A")
"""Texts that stand for a missing value, where the other texts of their column are numbers, times or truth values."""

_BEFORE_JSON: Final = b"\xef\xbb\xbf \t\r\n"
_MOST_BYTES: Final = 64 << 20
_MOST_ROWS: Final = 100_000
_SNIFF: Final = "SELECT Delimiter, HasHeader, SkipRows FROM sniff_csv(?, sample_size = -1, strict_mode = false)"
_ESCAPE: Final = re.compile(r"\\[Nnt\\]")
_PLAIN: Final = (
    (pa.types.is_string, "str"),
    (pa.types.is_large_string, "str"),
    (pa.types.is_integer, "int"),
    (pa.types.is_boolean, "bool"),
)
"""Types of values in a map whose JSON says as much as the Parquet file."""
_DAYS: Final = ("time", "date")
_NGINX: Final = frozenset({"time_iso8601", "time_local", "msec"})


def sample_of(file: Path, zone: str | None, *, header: bool | None = None) -> FileSample:
    """The rows of a file, at most 100,000; `header` says whether rows have one, if that is known.

    Raises TandemError if it cannot be read, or holds nothing that a decoder reads.
    """
    if file.suffix in SUFFIXES:
        return _parquet(file, zone)
    with input_stream(file) as stream:
        head = stream.peek(1 << 20)
        refuse_binary(head, str(file))
        if head.lstrip(_BEFORE_JSON)[:1] in (b"{", b"["):
            return _json(file, _first_values(_json_values(stream, head, file)), zone)
        lines = _first_values(stream_lines(stream, str(file)))
    if not any(line.strip() for line in lines):
        raise TandemError(f"{file} has no lines from which the columns could be guessed", code="file-unusable")
    return log_sample(lines, zone) or _csv(file, lines, zone, has_header=header)


def change_values(file: Path) -> list[bytes]:
    """The first JSON objects of a file, if the first may be a change of a table; else none."""
    if file.suffix in SUFFIXES:
        return []
    with input_stream(file) as stream:
        head = stream.peek(1 << 20)
        if head.lstrip(_BEFORE_JSON)[:1] != b"{" or b'"op"' not in head:
            return []
        return _first_values(_json_values(stream, head, file))


def _json_values(stream: BufferedReader, head: bytes, file: Path) -> Iterator[bytes]:
    if begins_collection(head):
        return (value.value for value in feature_values(stream, str(file)))
    if begins_values(head, arrays=False):
        return (value.value for value in json_values(stream, str(file)))
    return (line for line in stream_lines(stream, str(file)))


def _first_values(values: Iterable[bytes]) -> list[bytes]:
    """The first values, up to the most rows and bytes."""
    several, size = [], 0
    for value in islice(values, _MOST_ROWS):
        size += len(value)
        several.append(value)
        if size > _MOST_BYTES:
            break
    return several


def _json(file: Path, values: Sequence[bytes], zone: str | None) -> FileSample:
    objects = [object_ for value in values if isinstance(object_ := _object(value), dict)]
    if not objects:
        raise TandemError(f"{file}: no line and no value of the file is a JSON object", code="file-unusable")
    if _NGINX & objects[0].keys() and "status" in objects[0]:
        texts = [{key: None if value is None else str(value) for key, value in object_.items()} for object_ in objects]
        columns, _ = _text_columns(texts, zone, ("", "-"), "")
        return FileSample("nginx_json()", {**columns, **_nginx_times(columns)}, len(objects), repeats(objects))
    return FileSample("", members_of(objects, zone), len(objects), repeats(objects))


def _nginx_times(columns: Mapping[str, FieldType]) -> dict[str, FieldType]:
    """The times that nginx_json() reads without an annotation."""
    return {name: replace(columns[name], kind="time", annotation="datetime", note="") for name in _NGINX & columns.keys()}


def _object(value: bytes) -> Any:
    try:
        return json.loads(value, parse_float=Decimal, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def _parquet(file: Path, zone: str | None) -> FileSample:
    objects = [_object(value) for value in _first_values(value.value for value in parquet_values(file))]
    if not objects:
        raise TandemError(f"{file} has no rows from which the columns could be guessed", code="file-unusable")
    columns = members_of(objects, zone)
    for field in pq.read_schema(file):
        if (annotation := _annotation(field.type)) and field.name in columns:
            kind: Kind = (
                "decimal" if annotation.startswith("Annotated[Decimal") else "double" if annotation == "float" else "other"
            )
            columns[field.name] = replace(columns[field.name], kind=kind, annotation=annotation, note="", span=None, members=())
    return FileSample("", columns, len(objects), repeats(objects), "each row of the Parquet file becomes a JSON object")


def _annotation(of: pa.DataType) -> str:
    """The type of a field where a Parquet file says more than JSON does; else empty."""
    if pa.types.is_decimal(of) and of.scale >= 0:
        return f"Annotated[Decimal, Scale({of.scale})]"
    if pa.types.is_floating(of):
        return "float"
    if (pa.types.is_time(of) or pa.types.is_duration(of)) and of.unit != "ns":  # Python's have microseconds
        return "time" if pa.types.is_time(of) else "timedelta"
    if pa.types.is_map(of):
        values = _annotation(of.item_type) or next((name for fits, name in _PLAIN if fits(of.item_type)), "")
        return f"dict[str, {values}{' | None' if of.item_field.nullable else ''}]" if values else ""
    return "bytes" if pa.types.is_binary(of) or pa.types.is_large_binary(of) or pa.types.is_fixed_size_binary(of) else ""


def _csv(file: Path, lines: Sequence[bytes], zone: str | None, *, has_header: bool | None) -> FileSample:
    delimiter, header, skip = _dialect(file, lines)
    header, skip = (header, skip) if has_header is None else (has_header, 0)
    if skip:
        raise TandemError(
            f"{file}: the rows begin in line {skip + 1}; remove the lines before, so that the file begins with a header or a row",
            code="file-unusable",
        )
    text = _whole_rows(lines, delimiter).decode("utf-8-sig", errors="surrogateescape")
    rows, plain_quotes = _rows(text, delimiter)
    has_escapes = delimiter == "\t" and (plain_quotes or '"' not in text) and bool(_ESCAPE.search(text))
    if header and has_header is None:
        header = not _begins_with_times(rows, zone)
    names = rows.pop(0) if header else [f"column_{number}" for number in range(1, len(rows[0]) + 1)]
    whole = [dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)]
    if not whole:
        raise TandemError(
            f"{file} has a header, and no row with as many texts from which the columns could be guessed", code="file-unusable"
        )
    marks = number_marks(whole, {*NULLS}, delimiter)
    for row in whole:
        row |= {name: marks.plain(row[name]) for name in marks.columns}
    null = "\\N" if has_escapes else ""
    columns, nulls = _text_columns(whole, zone, NULLS, null)
    columns = {name: columns[name] for name in names if name and names.count(name) == 1}
    joined = day_and_clock(columns, whole, {null, *nulls}, zone)
    parts = ["header=True" if header else f"columns={_tuple(names)}"]
    if has_escapes:
        parts += [f"null={_tuple(nulls)}"] if nulls not in ([], ["\\N"]) else []
    else:
        parts += [f"delimiter={quote(delimiter)}"] if delimiter != "," else []
        parts += [f"null={_tuple(nulls)}"] if nulls not in ([], [""]) else []
        parts += ["quote=None"] if plain_quotes else []
    parts += [f"{name}={quote(mark)}" for name, mark in marks.options.items()]
    parts += [f"join={{{quote(joined.name)}: {_tuple(joined.parts)}}}"] if joined else []
    return FileSample(
        f"{'tsv' if has_escapes else 'csv'}({', '.join(parts)})",
        joined.join_in(columns) if joined else columns,
        len(rows),
        repeats(whole),
        "" if header else "the file has no header: name its columns",
    )


def _refuse_other_encodings(file: Path, lines: Sequence[bytes]) -> None:
    for number, line in enumerate(lines, start=1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            raise TandemError(
                f"{file}: line {number} is not UTF-8 (byte {line[error.start]:#04x}); convert the file, for example with "
                f"`iconv -f WINDOWS-1252 -t UTF-8 {file.name} > utf8-{file.name}`",
                code="file-unusable",
            ) from error


def _dialect(file: Path, lines: Sequence[bytes]) -> tuple[str, bool, int]:
    """The delimiter, whether there is a header, and the number of lines before it."""
    with tempfile.NamedTemporaryFile(suffix=".csv") as plain:
        plain.writelines(lines)
        plain.flush()
        try:
            with duckdb.connect() as engine:
                row = cast("tuple[str, bool, int]", engine.execute(_SNIFF, [plain.name]).fetchone())
        except duckdb.Error as error:
            _refuse_other_encodings(file, lines)
            raise TandemError(
                f"{file}: neither JSON, nor a log that a decoder reads, nor rows with a delimiter: {str(error).splitlines()[0]}",
                code="file-unusable",
            ) from error
    return row


def _rows(text: str, delimiter: str) -> tuple[list[list[str]], bool]:
    """The rows without empty ones, and whether quotes are ordinary characters: somewhere one begins a text and ends inside."""
    try:
        return [row for row in rows_with_quotes(text, delimiter) if row], False
    except Reject:
        return [row for row in rows_without_quotes(text, delimiter, None) if row], True


def _begins_with_times(rows: Sequence[Sequence[str]], zone: str | None) -> bool:
    """Whether the first row has a time in a column of times: then it is an event, and not a header."""
    width = len(rows[0])
    columns = [{row[index] for row in rows[1:] if len(row) == width} - {*NULLS} for index in range(width)]
    return any(
        of_texts("", [text], zone).kind in _DAYS and of_texts("", texts, zone).kind in _DAYS
        for text, texts in zip(rows[0], columns, strict=True)
        if texts
    )


def _whole_rows(lines: Sequence[bytes], delimiter: str) -> bytes:
    """The lines up to the last that ends a row: the sample of a large file may end inside of one."""
    end, inside = 0, False
    for number, line in enumerate(lines, start=1):
        inside = quote_is_open(line, delimiter.encode(), inside=inside)
        end = end if inside else number
    return b"".join(lines[:end] or lines)


def _text_columns(
    rows: Sequence[Mapping[str, str | None]], zone: str | None, words: Sequence[str], null: str
) -> tuple[dict[str, FieldType], list[str]]:
    """The types of columns of texts, and the texts that stand for a missing value in one of them.

    `null` is missing in every column, the other `words` only in columns of numbers, times or truth values.
    """
    columns: dict[str, FieldType] = {}
    nulls: dict[str, None] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        texts = {text for row in rows if (text := row.get(name)) is not None}
        missing = any(row.get(name) is None for row in rows)
        plain = of_texts(name, texts - {null}, zone)
        of, absent = plain, texts & {null}
        if (
            plain.kind == "text"
            and plain.annotation == "str"
            and (typed := of_texts(name, texts - set(words), zone)).kind != "text"
        ):
            of, absent = typed, texts & set(words)
        nulls |= dict.fromkeys(word for word in words if word in absent)
        columns[name] = replace(of, missing=bool(absent) or missing)
    return columns, [*nulls]


def repeats(rows: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """The columns without nulls of which equal values are in equal rows only."""
    texts = [json.dumps(row, sort_keys=True, default=str) for row in rows]
    different = len(set(texts))
    return frozenset(
        name
        for name in rows[0]
        if all(isinstance(row.get(name), str | int) and row[name] != "" for row in rows)
        and len({row[name] for row in rows}) == different
    )


def _tuple(texts: Sequence[str]) -> str:
    several = ", ".join(map(quote, texts))
    return f"({several},)" if len(texts) == 1 else f"({several})"


def quote(text: str) -> str:
    """The text as Python writes it, in double quotes."""
    return '"' + repr(text)[1:-1].replace('"', '\\"').replace("\\'", "'") + '"'
