"""Whether each text in quotes of a CSV file ends where RFC 4180 says; Spark reads the rows after another quote as one text."""

import csv
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from tandem.infra.spark.versions import compared

_FAULT: Final = "fault"


def quote_fault(path: Path) -> str | None:
    """The lines of the first row with a wrong quote; None if there is none."""
    # Of UTF-8 only ASCII matters here, and no byte of another letter is ASCII.
    with path.open(encoding="latin-1", newline="") as lines:
        # The limit belongs to the process; a row of another width than the header, however long, is read like all others.
        limit, line = csv.field_size_limit(sys.maxsize), 1
        table = csv.reader(lines, strict=True)
        try:
            for _ in table:
                line = table.line_num + 1
        except csv.Error:
            return f"lines {line} to {table.line_num}" if table.line_num > line else f"line {line}"
        finally:
            csv.field_size_limit(limit)
    return None


def quote_faults(session: SparkSession, paths: list[str]) -> dict[str, str]:
    """By path the lines of the first row with a wrong quote, of the files that have one: one Spark job reads all files."""
    frame = session.createDataFrame([(path,) for path in paths], "path string")
    rows = frame.mapInArrow(compared(_faults), f"path string, {_FAULT} string").collect()
    return {row["path"]: row[_FAULT] for row in rows}


def _faults(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        faults = {path: fault for path in batch.column("path").to_pylist() if (fault := quote_fault(Path(path))) is not None}
        yield pa.RecordBatch.from_pydict(
            {"path": pa.array([*faults], pa.string()), _FAULT: pa.array([*faults.values()], pa.string())}
        )
