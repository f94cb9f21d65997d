"""A task writes the bytes of its records and their events in one pass; only the task's function runs, without Spark."""

import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tandem.batch.archive import copy, copy_task
from tandem.batch.archive.copy_task import Copied, copy_records, refuse_torn, total
from tandem.batch.archive.decode_to_files import Decoding
from tandem.batch.runtime.parquet_writer import Written
from tandem.ledger.delta.location import Location
from tandem.views.kernel import kernel
from tandem.views.project import project
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import RECORDS_SCHEMA
from tests.batch.filed import AT, DEFINITIONS, SOURCE
from tests.one_process import ADDRESS, MemoryBroker, Tasks

FILES = {"tandem.toml": b"", "definitions.py": DEFINITIONS}
GOOD, BAD = b'{"at": "2026-11-01T12:00:00Z"}', b"{"


def work(folder: Path) -> Decoding:
    places = [Location(str(folder / name)) for name in ("archive", "events", "quarantine")]
    for place in places:
        Path(place.address).mkdir()
    return Decoding(FILES, SOURCE, *places)


def records(first: int, values: Sequence[bytes | None], *, partition: int = 0) -> pa.RecordBatch:
    """Consecutive records of one partition."""
    rows = [
        {
            "topic_id": "T",
            "partition": partition,
            "offset": first + number,
            "timestamp": AT,
            "timestamp_type": 0,
            "key": None if number % 2 else b"k",
            "value": value,
            "headers": [{"key": "a", "value": None}] if number % 3 == 0 else None,
        }
        for number, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, RECORDS_SCHEMA)


def run(task: Decoding, batches: Sequence[pa.RecordBatch], *, typed: bool = True) -> Copied:
    return total([copy_records(task, (pa.Table.from_batches([batch]) for batch in batches), typed=typed)], typed=typed)


def stored(place: Location, files: Sequence[Written], schema: pa.Schema) -> pa.Table:
    read = [pq.read_table(Path(place.address, file.path), page_checksum_verification=True).cast(schema) for file in files]
    return pa.concat_tables([pa.Table.from_batches([], schema), *read])


def test_the_archive_has_every_byte_and_the_tables_have_the_decoded_events(tmp_path: Path) -> None:
    dice, task = random.Random(1), work(tmp_path)
    batches = [records(10 * number, dice.choices([GOOD, BAD, None, b""], k=10)) for number in range(5)]

    found = run(task, batches)

    expected = pa.Table.from_batches(batches)
    decoded = kernel.decode(project.load_files(FILES).sources[SOURCE], expected)
    assert stored(task.archive, found.files, RECORDS_SCHEMA).equals(expected)
    assert found.decoded is not None
    assert stored(task.events, found.decoded.events, decoded.events.schema).equals(decoded.events.combine_chunks())
    assert stored(task.quarantine, found.decoded.rejects, decoded.rejects.schema).equals(decoded.rejects.combine_chunks())
    assert found.decoded.records == found.records == 50
    assert found.decoded.event_rows + sum(found.decoded.quarantined.values()) == 50
    assert [file.bounds["offset"] for file in found.files] == [(0, 49)]
    refuse_torn(found, Ranges.of({("T", 0): (0, 50)}))


def test_a_copy_without_decoding_has_the_same_bytes_and_no_events(tmp_path: Path) -> None:
    task = work(tmp_path)
    found = run(task, [records(0, [GOOD, BAD])], typed=False)
    assert found.records == 2
    assert found.decoded is None
    assert not list(Path(task.events.address).iterdir())


@pytest.mark.parametrize("typed", [True, False])
def test_a_task_without_records_writes_nothing(tmp_path: Path, typed: bool) -> None:  # noqa: FBT001  a parameter of pytest
    task = work(tmp_path)
    found = run(task, [records(0, [])], typed=typed)
    assert (found.files, found.decoded is None) == ((), not typed)
    assert not [*tmp_path.rglob("*.parquet")]


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_each_task_reads_another_piece_of_the_planned_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: int) -> None:
    monkeypatch.setattr(copy, "_FEW_RECORDS", 3)
    broker, task = MemoryBroker(), work(tmp_path)
    log = broker.new_topic(partitions=3)
    broker.stand_in(monkeypatch)
    for partition, values in ((0, 40), (1, 7)):
        log.append([GOOD] * values, partition=partition)
        log.skip(partition, 2)
    planned = Ranges.of({(log.topic.id, 0): (5, 42), (log.topic.id, 1): (0, 9)})

    copied = copy.copy(Tasks(tasks), ADDRESS, [log.topic], planned, task, parallelism=tasks)  # type: ignore[arg-type]

    rows = stored(task.archive, copied.files, RECORDS_SCHEMA).select(["partition", "offset"]).to_pylist()
    expected = [(0, offset) for offset in range(5, 40)] + [(1, offset) for offset in range(7)]
    assert sorted((row["partition"], row["offset"]) for row in rows) == expected
    assert len(copied.files) > tasks
    refuse_torn(copied, planned)


def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_task, "_GROUP_BYTES", 100_000)
    task, large = work(tmp_path), GOOD + b" " * 10_000
    found = run(task, [records(4 * number, [large] * 4) for number in range(10)])
    with pq.ParquetFile(Path(task.archive.address, found.files[0].path)) as file:
        groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    assert groups == [8] * 5
    assert found.decoded is not None
    assert found.decoded.event_rows == 40


def test_a_task_that_fails_while_it_decodes_returns_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(kernel, "decode", broken)
    with pytest.raises(MemoryError):
        run(work(tmp_path), [records(0, [GOOD])])
