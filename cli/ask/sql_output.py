"""The result of a statement for a person, a pipe or a program."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from rich.console import RenderableType

from tandem.cli.command.text_tables import listing
from tandem.serving.sql.merged_views import MergedRows
from tandem.serving.sql.result_rows import to_rows

Format = Literal["box", "csv", "json"]
"""In columns for people, as CSV with a header, or as one JSON document."""

FORMATS: Final[tuple[Format, ...]] = ("box", "csv", "json")


def document(found: MergedRows, at: datetime) -> dict[str, Any]:
    """A result as one JSON document: columns, rows and provenance."""
    return {"columns": found.table.column_names, "rows": to_rows(found.table), "_provenance": found.told(now=at)}


def shown(found: MergedRows, how: Format, at: datetime) -> RenderableType:
    """A result for a person or a pipe."""
    if how == "json":
        return json.dumps(document(found, at), ensure_ascii=False, allow_nan=False)
    rows = to_rows(found.table)
    if how == "csv":
        return _csv(found.table.column_names, rows)
    return listing(rows, below=["no rows", *_below(found)] if not rows else list(_below(found)))


def _below(found: MergedRows) -> Iterator[str]:
    """The provenance of the rows, in lines for a person."""
    for name, whence in found.provenance.items():
        stands = f"batch version {whence.batch_version} and the events after it" if whence.layer == "merged" else "batch"
        yield f"{name}: publication {whence.publication}, {stands}; {whence.exactness.says}"


def _csv(names: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """RFC 4180 except for line ends; NULL is an empty field, lists and structs are JSON."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_field(value) for value in row.values()])
    return text.getvalue().removesuffix("\n")


def _field(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
