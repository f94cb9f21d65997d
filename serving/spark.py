"""The merged view as a Spark DataFrame, for scans that outgrow one machine: row for row what a reader answers.

Spark's tasks read the files of the view's batch versions and the states of the realtime commits that the reader has pinned.
States travel as Arrow bytes to the bucket of their keys, where the kernel merges and presents them, as everywhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from tandem.infra.spark.versions import compare, compared
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.publish.batch_parts import BatchPart, files_with_later, staying
from tandem.ledger.publish.releases import Releases
from tandem.ledger.stored_states import by_bucket, stored
from tandem.serving.connection import AtOneSnapshot
from tandem.serving.read.merged_layers import refusal
from tandem.serving.read.outcome import ReadFailed
from tandem.serving.read.provenance import Layer
from tandem.serving.read.selection import ALWAYS, Selection, select
from tandem.serving.read.snapshot import Snapshot, batch_of
from tandem.serving.read.tabular import DIGITS, narrowed
from tandem.views.arrow.arrays import from_ipc
from tandem.views.composite.current_rows import RowsView, of_rows, of_states
from tandem.views.composite.rollup import root
from tandem.views.composite.together import parts, several
from tandem.views.errors import TandemError
from tandem.views.kernel import kernel
from tandem.views.project import project
from tandem.views.view import View, answer_schema, shared_columns

_BUCKET_ROWS: Final = 1 << 18
"""States that one task merges, about."""

_COMMITS: Final = 32
"""Realtime commits that one task reads."""

_BUCKETS: Final = "bucket int, states binary"
_SENT: Final = pa.schema([("bucket", pa.int32()), ("states", pa.binary())])


@dataclass(frozen=True)
class _Work:
    """What a task needs: the release's files, the view, the tables of its states, and the watermark of the answers."""

    definitions: Mapping[str, bytes] = field(hash=False)
    view: str
    tables: Mapping[str, Location] = field(hash=False)
    buckets: int
    watermark: int | None
    kept_from: datetime | None
    at: datetime | None

    def bound(self) -> View:
        """The view, as the release defines it."""
        return project.load_files(self.definitions).every_view[self.view]


@dataclass(frozen=True)
class _AnswerFile:
    """A file of a batch version of a view, without the states that `later` parts replace."""

    of: str
    path: str
    later: tuple[BatchPart, ...]


_States = tuple[bytes, ...]
"""States of realtime commits, as Arrow IPC."""


def dataframe(
    session: SparkSession, snapshot: AtOneSnapshot, view: str, *, layer: Layer = "merged", at: datetime | None = None
) -> DataFrame:
    """The answers of a view at one snapshot (`connect(...).snapshot()`), all keys and windows, in no order.

    `at` gives the versions of a table that were valid then.

    Columns are those of answer_schema, with its `kind`, `unit` and `doc` as their metadata. Spark's decimals have 38
    digits: a total that needs more fails the job. Spark evaluates it when it is used, which works as long as the publication is
    retained. Raises UnknownView, BadSelection for a time that the view has no versions of, and ReadFailed if the view cannot be
    answered.
    """
    pinned = snapshot.pinned
    return frame_of(session, snapshot.store.tables, pinned.snapshot, pinned.view(view), layer=layer, at=at)


def frame_of(
    session: SparkSession,
    tables: Tables,
    snapshot: Snapshot,
    definition: View,
    *,
    layer: Layer,
    at: datetime | None = None,
) -> DataFrame:
    """The answers at any snapshot whose release has this view. Raises BadSelection, and ReadFailed if it cannot be answered."""
    valid = select(definition, {}, ALWAYS, at=at).at
    if (problem := refusal(snapshot, definition)) is not None:
        raise ReadFailed(problem)
    publication, tail = snapshot.publication, snapshot.tail(definition)
    live = snapshot.batch(definition)
    items: list[_AnswerFile | _States] = []
    rows, places = 0, dict[str, Location]()
    for part in parts(root(definition)) if layer != "speed" else ():
        of = batch_of(publication, definition if not several(definition) else part)
        address = of.address(tables, part.name)
        places[part.name] = Location.of(tables, address)
        items += [_AnswerFile(part.name, file.path, later) for file, later in files_with_later(tables, address, of.parts)]
        rows += of.rows
    if layer != "batch":
        states = [commit.partials[live.states] for commit in tail.commits]
        items += [tuple(states[start : start + _COMMITS]) for start in range(0, len(states), _COMMITS)]
    context = session.sparkContext
    work = _Work(
        Releases(tables).load(publication.release).files,
        definition.name,
        places,
        max(context.defaultParallelism, rows // _BUCKET_ROWS + 1),
        snapshot.watermark(definition.source.name, at_the_cut=layer == "batch"),
        live.first_window,
        valid,
    )

    def presented(sent: pa.Table) -> pa.Table:  # PySpark reads the types, which a functools.partial does not tell
        compare()
        return _presented(work, sent)

    def fold(sent: pa.Table) -> pa.Table:
        compare()
        return _rows_of_table(work, sent)

    sent = context.parallelize(items, max(1, len(items))).flatMap(compared(partial(_sent, work)))
    found = session.createDataFrame(sent, _BUCKETS, verifySchema=False).repartition(work.buckets, "bucket").groupBy("bucket")
    if isinstance(definition, RowsView):  # first by the table's keys, which decide what rows there are; then by its own
        of_groups = found.applyInArrow(fold, _BUCKETS).repartition(work.buckets, "bucket").groupBy("bucket")
        return of_groups.applyInArrow(presented, schema_of(answer_schema(definition)))
    return found.applyInArrow(presented, schema_of(answer_schema(definition)))


def _sent(work: _Work, item: _AnswerFile | _States) -> Iterator[tuple[int, bytes]]:
    """States on their way to their bucket."""
    view, valid = work.bound(), Selection(reach=None, at=work.at)
    for states in map(valid.filter, _states_of_item(work, view, item)):
        yield from by_bucket(staying(kernel.roll(view, states), work.kept_from), shared_columns(of_states(view)), work.buckets)


def _states_of_item(work: _Work, view: View, item: _AnswerFile | _States) -> Iterator[pa.Table]:
    if not isinstance(item, _AnswerFile):
        return map(from_ipc, item)
    of = next(part for part in parts(root(view)) if part.name == item.of)
    return stored(of, work.tables[item.of], item.path, item.later)


def _rows_of_table(work: _Work, sent: pa.Table) -> pa.Table:
    """The states of a view of rows, of the rows of the table in a bucket."""
    view = work.bound()
    merged = kernel.merge(view, [kernel.Partial(from_ipc(states)) for states in sent["states"].to_pylist()])
    pieces = by_bucket(kernel.current(view, merged).states, shared_columns(view), work.buckets)
    return pa.Table.from_pylist([{"bucket": bucket, "states": states} for bucket, states in pieces], schema=_SENT)


def _presented(work: _Work, sent: pa.Table) -> pa.Table:
    """The answers of a bucket."""
    view = of_rows(work.bound())
    merged = kernel.merge(view, [kernel.Partial(from_ipc(states)) for states in sent["states"].to_pylist()])
    answers = kernel.present(view, merged, work.watermark)
    fields = [pa.field(column.name, narrowed(column.type)) for column in answers.schema]
    try:
        return answers.cast(pa.schema(fields))
    except pa.ArrowInvalid as error:
        raise TandemError(
            f"view {view.name!r} has an answer of more than the {DIGITS} digits of Spark's decimals: {error}"
        ) from error


def schema_of(arrow: pa.Schema) -> StructType:
    """Arrow's columns as Spark's, with their metadata."""
    columns = []
    for column in arrow:
        metadata = {key.decode(): text.decode() for key, text in (column.metadata or {}).items()}
        columns.append(StructField(column.name, from_arrow_type(narrowed(column.type)), nullable=True, metadata=metadata))
    return StructType(columns)
