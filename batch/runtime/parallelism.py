"""How many tasks a fold has: the slices to fold, and the buckets to merge."""

from collections.abc import Sequence
from math import ceil
from typing import Final

from tandem.ledger.files.file_ranges import FileRange, rows_within
from tandem.ledger.files.splits import Slice, cut, even_rows
from tandem.views.source.offset_ranges import Ranges
from tandem.views.view import View, bind

FEW_ROWS: Final = 100_000
# Events per bucket, which bound the states that one task merges. If log order matters, each event is a state at first.
_MERGE_ROWS: Final = 20_000_000
_ORDERED_ROWS: Final = 1_000_000


def slices(files: Sequence[FileRange], covered: Ranges, *, parallelism: int, task_mb: int) -> list[Slice]:
    """One slice a task, with at most `task_mb` megabytes of Parquet."""
    rows, size = sum(span.rows for span in files), sum(span.size for span in files)
    most = max(FEW_ROWS, task_mb * 1_000_000 * rows // max(1, size))
    return cut(files, covered, rows=even_rows(rows_within(files, covered), parallelism, least=FEW_ROWS, most=most))


def buckets(rows: int, *, in_log_order: bool, parallelism: int) -> int:
    """How many tasks merge the states of this many events; `in_log_order` if a view's windows depend on the log's order."""
    return 1 if rows < FEW_ROWS else max(parallelism, ceil(rows / (_ORDERED_ROWS if in_log_order else _MERGE_ROWS)))


def in_log_order(view: View) -> bool:
    """Whether the view's windows depend on the order of the log: then each event is a state at first."""
    return bind(view).placement.steps.settle is not None
