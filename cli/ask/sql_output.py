"""The result of a statement for a person, a pipe or a program."""

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tandem.cli.ask.row_output import RowOutput
from tandem.cli.command.text_tables import listing
from tandem.serving.sql.merged_views import MergedRows
from tandem.serving.sql.result_rows import to_rows

if TYPE_CHECKING:
    from rich.console import RenderableType


def document(found: MergedRows, at: datetime) -> dict[str, Any]:
    """A result as one JSON document: columns, rows and provenance."""
    return {"columns": found.table.column_names, "rows": to_rows(found.table), "_provenance": found.told(now=at)}


def row_output(found: MergedRows, at: datetime) -> RowOutput:
    """A result in all formats."""
    printed = document(found, at)
    rows = printed["rows"]

    def shown() -> "RenderableType":
        return listing(rows, below=["no rows", *_below(found)] if not rows else list(_below(found)))

    return RowOutput(found.table, rows, rows, printed["_provenance"], printed, shown)


def _below(found: MergedRows) -> Iterator[str]:
    """The provenance of the rows, in lines for a person."""
    for name, whence in found.provenance.items():
        stands = f"batch version {whence.batch_version} and the events after it" if whence.layer == "merged" else "batch"
        yield f"{name}: {whence.whose}, {stands}; {whence.exactness.says}"
