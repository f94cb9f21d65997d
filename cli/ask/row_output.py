"""Rows as the output of a command: the formats of `query` and `sql`, on standard output or in a file."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import pyarrow as pa
import typer

from tandem.cli.command.call import Call, Output
from tandem.infra.files import atomic_files
from tandem.serving.read import row_bytes
from tandem.views.counted import counted
from tandem.views.errors import TandemError

if TYPE_CHECKING:
    from rich.console import RenderableType

Format = Literal["table", "json", "csv", "ndjson", "arrow", "parquet"]
"""For people; one document; CSV with a header; a document a row; Arrow's IPC stream; Parquet."""

_SUFFIXES: Final[Mapping[str, Format]] = {
    ".json": "json",
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".parquet": "parquet",
}
BINARY: Final = ("arrow", "parquet")

FormatOption = Annotated[
    Format | None,
    typer.Option("--format", help="Output format. Default: table; with --out the format that the file's name ends with."),
]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the rows to this file, which is replaced.")]


@dataclass(frozen=True)
class RowOutput:
    """Rows to print.

    | field | meaning |
    | --- | --- |
    | `table` | the rows, for formats with types |
    | `rows` | the same in JSON types, for NDJSON |
    | `cells` | the same, for CSV: all rows have the same fields |
    | `provenance` | of the rows, for the metadata of formats with types |
    | `document` | for JSON |
    | `shown` | for people |
    """

    table: pa.Table
    rows: Sequence[Mapping[str, Any]]
    cells: Sequence[Mapping[str, Any]]
    provenance: Any
    document: Any
    shown: "Callable[[], RenderableType]"


def format_of(call: Call, named: Format | None, out: Path | None) -> Format:
    """The format that the options choose. Raises TandemError where they contradict each other, or a terminal cannot show it."""
    if call.json and named not in (None, "json") and out is None:
        raise TandemError(f"--json and --format {named} cannot be combined", code="usage-invalid")
    if out is not None and named is None:
        if (suffix := out.suffix.lower()) not in _SUFFIXES:
            raise TandemError(f"--out {out}: no format has the suffix {suffix!r}; add --format", code="usage-invalid")
        return _SUFFIXES[suffix]
    if named == "table" and out is not None:
        formats = ", ".join(dict.fromkeys(_SUFFIXES.values()))
        raise TandemError(f"--format table is for a terminal, not for --out; formats of files: {formats}", code="usage-invalid")
    if named in BINARY and out is None and sys.stdout.isatty():
        raise TandemError(
            f"--format {named} is not for a terminal; add --out FILE, or send standard output elsewhere", code="usage-invalid"
        )
    return named or ("json" if call.json else "table")


def output(call: Call, rows: RowOutput, how: Format, out: Path | None) -> Output:
    """The rows in a format, or written to the file. Raises TandemError if that fails."""
    if out is None:
        if how == "table":
            return Output(rows.document, rows.shown())
        return Output(rows.document) if call.json else Output(rows.document, data=bytes_in(rows, how))
    content = bytes_in(rows, how)
    # A link keeps its place, and a pipe or device is written to.
    target = out.resolve()
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(content)
        else:
            atomic_files.replace(target, content)
    except OSError as error:
        raise TandemError(f"cannot write {out}: {error.strerror}", code="file-unusable") from error
    number = rows.table.num_rows
    document = {"file": str(out.resolve()), "format": how, "rows": number}
    return Output(document, f"wrote {counted(number, 'row')} to {out}")


def bytes_in(rows: RowOutput, how: Format) -> bytes:
    """The bytes of rows in any format but that for people."""
    metadata = {"provenance": json.dumps(rows.provenance)}
    if how == "csv":
        names = list(rows.cells[0]) if rows.cells else rows.table.column_names
        return row_bytes.csv(names, [list(row.values()) for row in rows.cells], line_end="\n", all_quoted=False)
    if how == "ndjson":
        return row_bytes.ndjson(rows.rows)
    if how == "arrow":
        return row_bytes.arrow_stream(rows.table, metadata)
    if how == "parquet":
        return row_bytes.parquet(rows.table, metadata)
    return json.dumps(rows.document, ensure_ascii=False, allow_nan=False).encode() + b"\n"
