"""Rows as bytes of a format, the same over HTTP and on the command line.

| format       | rows                                                                              |
| ------------ | --------------------------------------------------------------------------------- |
| NDJSON       | JSON objects, one per line                                                        |
| CSV          | RFC 4180: NULL as nothing, an empty text as `""`, lists and structs as JSON       |
| Arrow stream | the table, with metadata of its schema                                            |
| Parquet      | the same                                                                          |

A spreadsheet runs a cell of CSV as a formula if it begins with one of `FORMULAS`, and anybody may have sent that text. An escaped
cell gets an apostrophe before it. Cells of numbers do not change.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from tandem.views.errors import TandemError

FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Beginnings that spreadsheets take for a formula's; the last four are full-width forms, which some treat alike."""

_SPECIAL: Final = re.compile(r'^$|[",\r\n]|^\s|\s$')
"""Texts that CSV has to quote; an empty text without quotes would be NULL."""


def ndjson(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """A line for each row."""
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def csv(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    escaped: Sequence[bool] | None = None,
    line_end: str = "\r\n",
    all_quoted: bool = True,
) -> bytes:
    """A header and a line for each row. Python's own writer cannot tell NULL from an empty text before 3.12.

    Args:
        rows: values of JSON types, in the order of the names.
        escaped: for each column, whether texts get an apostrophe before a formula; None if no cell does.
        all_quoted: quote every text, or only those that need it.
    """
    of_columns = escaped or [False] * len(names)
    lines = [",".join(_cell(name, escaped=escaped is not None, quoted=all_quoted) for name in names)]
    lines += (
        ",".join(_cell(value, escaped=text, quoted=all_quoted) for value, text in zip(row, of_columns, strict=True))
        for row in rows
    )
    return "".join(f"{line}{line_end}" for line in lines).encode()


def _cell(value: Any, *, escaped: bool, quoted: bool) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        before = "'" if escaped and value.startswith(FORMULAS) else ""
        text = f"{before}{value}"
        return f'"{text.replace(chr(34), chr(34) * 2)}"' if quoted or _SPECIAL.search(text) else text
    if isinstance(value, list | dict):
        return _cell(msgspec.json.encode(value).decode(), escaped=escaped, quoted=quoted)
    return json.dumps(value)


def arrow_stream(table: pa.Table, metadata: Mapping[str, str]) -> bytes:
    """The table as a stream of Arrow's IPC format."""
    sink = pa.BufferOutputStream()
    table = table.replace_schema_metadata(metadata)
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table.combine_chunks())
    content: bytes = sink.getvalue().to_pybytes()
    return content


def parquet(table: pa.Table, metadata: Mapping[str, str]) -> bytes:
    """The table as a Parquet file. Raises TandemError if it has a column that Parquet cannot hold."""
    import pyarrow.parquet  # noqa: PLC0415 - only who asks for this format waits for its import

    sink = pa.BufferOutputStream()
    try:
        pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), sink)
    except pa.ArrowNotImplementedError as error:
        raise TandemError(f"Parquet cannot hold these rows: {error}; use csv, ndjson or arrow", code="usage-invalid") from error
    content: bytes = sink.getvalue().to_pybytes()
    return content
