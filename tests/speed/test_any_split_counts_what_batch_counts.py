"""For any split into tasks and micro-batches, the events, duplicates and conflicts are those of the whole log."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tandem.speed.dedup.within_task as hashing
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.dedup.row_hash import row_hashes
from tandem.speed.dedup.within_task import identified, identities, values
from tandem.speed.micro_batch.fold import fold_shares
from tandem.speed.micro_batch.task import Share, Task, share_of
from tandem.views.arrow.arrays import from_ipc
from tandem.views.kernel.kernel import Partial, decode, deduplicate, merge, present
from tandem.views.project.project import load_files
from tandem.views.source.offset_ranges import EMPTY, Ranges
from tandem.views.source.source import RECORDS_SCHEMA
from tests.speed.sales import START, project_files, sale

FILES = project_files()
EVER = FILES | {
    "definitions.py": FILES["definitions.py"].replace(b'identity=("id",)', b'identity=("id",), identity_spans="any_time"')
}
SALES = load_files(FILES).sources["sales"]
COLUMNS = ("topic_id", "partition", "offset", "timestamp", "timestamp_type", "value")
SCHEMA = pa.schema([RECORDS_SCHEMA.field(name) for name in COLUMNS])

VALUES = st.builds(sale, st.integers(0, 3), seconds=st.integers(0, 1), shop=st.sampled_from("ab"), amount=st.integers(0, 1))
PARTITIONS = 2
SOME = 300
"""Bytes of events: some tasks have fewer."""
FOLDING = st.sampled_from([0, SOME, 1_000_000])


@st.composite
def logs(draw: st.DrawFn) -> list[list[list[bytes]]]:
    """Micro-batches of the values that each partition adds."""
    chunk = st.lists(st.one_of(VALUES, st.just(b"no sale")), max_size=5)
    return draw(st.lists(st.lists(chunk, min_size=PARTITIONS, max_size=PARTITIONS), min_size=1, max_size=4))


def records(values: Sequence[bytes], partition: int, first: int) -> pa.Table:
    rows = [("T", partition, first + row, START, 0, value) for row, value in enumerate(values)]
    return pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], SCHEMA)


def tasks(tables: Sequence[pa.Table], cut: int) -> Iterator[pa.Table]:
    """Each partition's records as one task, or as two: Spark may divide a partition."""
    for table in tables:
        yield from (part for part in (table.slice(0, cut), table.slice(cut)) if part.num_rows)


@contextmanager
def colliding() -> Iterator[None]:
    """Plant collisions: the first words of digests have one bit, so most identities share theirs with others."""

    def weak(table: pa.Table, columns: Sequence[str], secret: bytes) -> npt.NDArray[np.uint64]:
        found = row_hashes(table, columns, secret)
        found[:, 0] &= np.uint64(1)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "row_hashes", weak)
        yield


@given(logs(), st.integers(0, 5), st.sampled_from([0, 1, 2]), st.sampled_from([None, 1]), FOLDING)
def test_within_the_dedup_window_any_split_counts_the_same(
    log: list[list[list[bytes]]], cut: int, restart: int, behind: int | None, hand_back: int
) -> None:
    """`restart` is before which micro-batch the layer forgets, and loads what was counted from the log again.

    How far the watermark has come is a label: events `behind` it by seconds count like all others. Where several tasks
    read the same identity, tasks fold again in a second job, or the driver does if all tasks could `hand_back` their events.
    """
    counts_the_same(log, cut, restart, behind, hand_back)


@given(logs(), st.integers(0, 5), st.sampled_from([0, 1, 2]), FOLDING)
def test_copies_with_times_of_their_own_are_duplicates_where_the_identity_spans_any_time(
    log: list[list[list[bytes]]], cut: int, restart: int, hand_back: int
) -> None:
    counts_the_same(log, cut, restart, None, hand_back, files=EVER)


@given(logs(), st.integers(0, 5), st.sampled_from([0, 1, 2]), FOLDING)
def test_a_hash_collision_is_not_a_duplicate(log: list[list[list[bytes]]], cut: int, restart: int, hand_back: int) -> None:
    """The same where the first words of different identities are equal: all of the digest tells them apart."""
    with colliding():
        counts_the_same(log, cut, restart, None, hand_back, colliding=True)


def counts_the_same(
    log: list[list[list[bytes]]],
    cut: int,
    restart: int,
    behind: int | None,
    hand_back: int,
    *,
    colliding: bool = False,
    files: dict[str, bytes] = FILES,
) -> None:
    project = load_files(files)
    source, view = project.sources["sales"], project.views["per_shop"]
    watermark = None if behind is None else int(START.timestamp() + behind) * 1_000_000
    task = Task(files, "sales", {"per_shop": "f"}, watermark=watermark, hand_back=hand_back)
    dedup_window, ends, counted, states, before = DedupWindow(600_000_000), [0] * PARTITIONS, Counter[str](), [], []
    for number, chunks in enumerate(log):
        if number == restart:
            dedup_window = again(task, before)
        tables = [records(values, partition, ends[partition]) for partition, values in enumerate(chunks)]
        ranges = Ranges.of({("T", p): (ends[p], ends[p] + len(values)) for p, values in enumerate(chunks) if values})

        jobs: list[Task] = []

        def run(task: Task, tables: list[pa.Table] = tables, jobs: list[Task] = jobs) -> list[Share]:
            jobs.append(task)
            return [share_of(task, part) for part in tasks(tables, cut)]

        folded = fold_shares(run, task, {"f": view}, ranges, dedup_window)
        if not colliding:
            expected = {1} if not folded.across or hand_back > SOME else {1, 2} if hand_back else {2}
            assert len(jobs) in expected
        dedup_window = dedup_window.extended(folded.identities, at=0, caught_up=0)
        counted.update(events=folded.counts.events, duplicates=folded.counts.duplicates, conflicts=folded.counts.conflicts)
        states.append(Partial(from_ipc(folded.partials["f"]), EMPTY, {}))
        ends = [end + len(values) for end, values in zip(ends, chunks, strict=True)]
        before += tables

    whole = deduplicate(source, decode(source, pa.concat_tables(before)).events)
    assert counted == Counter(events=whole.events.num_rows, duplicates=whole.duplicates, conflicts=whole.conflicts)
    answered = present(view, merge(view, states)).to_pylist()
    assert sum(row["n"] for row in answered) == whole.events.num_rows


def again(task: Task, tables: Sequence[pa.Table]) -> DedupWindow:
    """What a layer that starts loads of the log so far."""
    dedup_window = DedupWindow(600_000_000)
    for table in tables:
        source = task.definitions()[0]
        found = identified(source, decode(source, table).events, task.generations)
        dedup_window = dedup_window.extended(values(identities(source, found)), at=0, caught_up=0)
    return dedup_window
