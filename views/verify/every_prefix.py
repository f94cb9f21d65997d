"""For a project's tests: what a view expects of its rows, checked as if every event of a test were followed by a recompute."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tandem.views.condition_result import ConditionResult
from tandem.views.kernel.kernel import Partial
from tandem.views.source.event import Event
from tandem.views.testing import answer_table
from tandem.views.verify.expectations import check_numbers, check_rows
from tandem.views.view import View

_MICRO_BATCHES: Final = 3


def check_expectations(view: View, events: Iterable[Event]) -> list[ConditionResult]:
    """Check the conditions that a view expects, for a version after the first event, after the second, ..., after the last.

    Each version is compared with the one before. Its events are folded in several micro-batches, whose states are written to
    Parquet files and read again. Returns the results of conditions that only warn and are not met, of each version.

    Raises AssertionError for a condition that stops a publication, with the version, how many rows do not meet it, and the
    worst ones.
    """
    __tracebackhide__ = True
    sequence, before, warned = [*events], None, list[ConditionResult]()
    with TemporaryDirectory() as folder:
        for end in range(1, len(sequence) + 1):
            rows = answer_table(view, sequence[:end], batches=_MICRO_BATCHES, stored=partial(_through_a_file, Path(folder)))
            results = check_rows(view, rows, None if before is None else (view, before))
            results += check_numbers(view, rows.num_rows, None if before is None else before.num_rows)
            for outcome in results:
                if outcome.stops:
                    worst = [dict(row) for row in outcome.worst]
                    raise AssertionError(f"after {end} of {len(sequence)} events: {outcome.sentence}: {worst}")
            warned += [outcome for outcome in results if outcome.unmet]
            before = rows
    return warned


def _through_a_file(folder: Path, states: Partial) -> Partial:
    """The states, as read from a file."""
    path = folder / "states.parquet"
    pq.write_table(states.states, path)
    read: pa.Table = pq.ParquetFile(path).read()
    return Partial(read.cast(states.states.schema), states.ranges, states.rejected)
