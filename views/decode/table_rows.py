"""Records that `tandem adopt` made from rows of a table: each value is a JSON object of the event type's fields.

Their timestamp type is TABLE_ROW, which no broker gives a record. So they are read alike years later, whatever the source's
decoder is by then, and no producer can write one.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow.python_values import scalar
from tandem.views.source.formats.json import JSON
from tandem.views.source.source import TABLE_ROW, Source


def by_origin(source: Source, batch: pa.RecordBatch) -> Iterator[tuple[Source, pa.RecordBatch, bool]]:
    """The records in pieces that the log or a table has, in their order: how each is read, and whether it is a table's."""
    rows = pc.fill_null(pc.equal(batch.column("timestamp_type"), scalar(TABLE_ROW, pa.int32())), False)
    if not (some := pc.any(rows, min_count=0).as_py()) or pc.all(rows, min_count=0).as_py():
        yield _reader(source) if some else source, batch, some
        return
    start = 0
    for run in pc.run_end_encode(rows).run_ends.to_pylist():
        piece, of_table = batch.slice(start, run - start), rows[start].as_py()
        yield _reader(source) if of_table else source, piece, of_table
        start = run


def of_its_side(source: Source, times: pa.Array, *, of_table: bool) -> pa.Array:
    """Which events count if the source has `history_until`: those of a table before it, those of the log from then on."""
    until = scalar(source.history_until, times.type)
    return pc.less(times, until) if of_table else pc.greater_equal(times, until)


@lru_cache(maxsize=256)
def _reader(source: Source) -> Source:
    """The source as it reads rows of a table: the fields of its event type, and of earlier versions, as JSON."""
    versions = tuple(replace(version, decoder=JSON) for version in source.versions)
    return replace(source, decoder=JSON, versions=versions, record_filter=None, tombstones="reject")
