"""The search for duplicates drops what the kernel's `deduplicate` drops from the whole log at once."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tandem.batch.fold import duplicates
from tandem.batch.fold.dropped_positions import read_dropped_positions
from tandem.batch.runtime.parquet_writer import TableFile
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import EVENTS, FileRange
from tandem.ledger.files.identity_hashes import IdentityHash
from tandem.ledger.files.splits import cut
from tandem.views.arrow.arrays import to_ipc
from tandem.views.kernel import kernel
from tandem.views.project import project
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import events_schema
from tests.batch.shop import DEFINITIONS

FILES = {"tandem.toml": b"", "definitions.py": DEFINITIONS.encode()}
SOURCE = project.load_files(FILES).sources["sales"]
IDENTITY = IdentityHash(("id", "at"))
START = datetime(2026, 1, 1, tzinfo=UTC)


def sales(ids: list[tuple[str, int]], *, partition: int = 0) -> pa.Table:
    """Events of these ids and seconds, at offsets from 0 on."""
    rows = [
        {
            "_topic_id": "T",
            "_partition": partition,
            "_offset": offset,
            "_append_time": START,
            "id": name,
            "at": START + timedelta(seconds=second),
            "shop": "s",
            "cents": offset,
        }
        for offset, (name, second) in enumerate(ids)
    ]
    return pa.Table.from_pylist(rows, schema=events_schema(SOURCE))


def stored(place: Location, tables: list[pa.Table], hashes: tuple[bool, ...] = ()) -> list[FileRange]:
    """A file for each table; `hashes` says which files have the hashes of identities, by default none."""
    spans = []
    for hashed, table in zip(hashes or [False] * len(tables), tables, strict=True):
        beside = (IDENTITY.field,) if hashed else ()
        file = TableFile(place, events_schema(SOURCE), EVENTS.names, beside=beside)
        with file:
            file.write(IDENTITY.added(table) if beside else table)
        assert file.written is not None
        number = table["_partition"][0].as_py()
        spans.append(FileRange(file.written.path, table.num_rows, ("T", "T"), (number, number), (0, table.num_rows)))
    return spans


@pytest.mark.spark
@pytest.mark.parametrize("ids", [40, 10_000_000])
def test_the_positions_that_plain_python_drops_are_dropped(spark: SparkSession, tmp_path: Path, ids: int) -> None:
    dice = random.Random(5)
    tables = [
        sales([(f"i{dice.randrange(ids)}", dice.randrange(3)) for _ in range(3000)], partition=partition) for partition in (0, 1)
    ]
    whole = pa.concat_tables(tables)
    expected = kernel.deduplicate(SOURCE, whole)
    events, scratch = Location(str(tmp_path / "events")), Location(str(tmp_path / "scratch"))
    ranges = Ranges.of({("T", 0): (0, 3000), ("T", 1): (0, 3000)})
    slices = cut(stored(events, tables), ranges, rows=1000)

    found = duplicates.find(spark, duplicates.Search(FILES, "sales", events, scratch), slices, parallelism=2)

    assert (found.duplicates, found.conflicts) == (expected.duplicates, expected.conflicts)
    kept = read_dropped_positions(scratch, found.files, ranges).keep(whole)
    assert kept.select(EVENTS.names) == expected.events.select(EVENTS.names)
    assert bool(found.files) == (expected.duplicates > 0)


def test_different_events_with_equal_hashes_are_not_duplicates(tmp_path: Path) -> None:
    search = duplicates.Search(FILES, "sales", Location(str(tmp_path)), Location(str(tmp_path)))

    assert list(duplicates.judged(search, iter([to_ipc(sales([("a", 1), ("b", 1), ("a", 2)]))]))) == []


def test_duplicates_in_many_pieces_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither hashes nor events need be in memory at once; what was kept gives way to what is earlier in the log."""
    monkeypatch.setattr(duplicates, "EVENTS_HELD", 40)
    monkeypatch.setattr(duplicates, "HASHES", 40)
    dice = random.Random(6)
    search = duplicates.Search(FILES, "sales", Location(str(tmp_path)), Location(str(tmp_path)))
    whole = sales([(f"i{dice.randrange(60)}", dice.randrange(2)) for _ in range(400)])
    cents = pa.array([dice.randrange(3) for _ in range(400)])
    whole = whole.set_column(whole.column_names.index("cents"), "cents", cents)
    expected = kernel.deduplicate(SOURCE, whole)
    order = list(range(0, 400, 10))
    dice.shuffle(order)

    (found,) = duplicates.judged(search, iter([to_ipc(whole.slice(start, 10)) for start in order]))
    assert (found.duplicates, found.conflicts) == (expected.duplicates, expected.conflicts)
    assert expected.conflicts
    kept = read_dropped_positions(Location(str(tmp_path)), found.files, Ranges.of({("T", 0): (0, 400)})).keep(whole)
    assert kept == expected.events

    hashes = IDENTITY.made(whole).to_numpy()
    (repeated,) = duplicates.repeated_hashes(search, iter([hashes[start : start + 10].tobytes() for start in order]))
    assert isinstance(repeated, duplicates.Repeated)
    often, counts = np.unique(hashes, return_counts=True)
    assert pq.read_table(tmp_path / repeated.file)["hash"].to_pylist() == often[counts > 1].tolist()
    assert repeated.events == counts[counts > 1].sum()


@pytest.mark.parametrize("most", [1, 3, 1_000])
@pytest.mark.parametrize("pieces", [[], [[]], [[], []], [[], [7]], [[7], [], [7, 8]], [[1, 1], [], [1], []]])
def test_hashes_are_compared_however_they_are_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: list[list[int]], most: int
) -> None:
    """Also where a slice has no event, as in windows that have none."""
    monkeypatch.setattr(duplicates, "HASHES", most)
    search = duplicates.Search(FILES, "sales", Location(str(tmp_path)), Location(str(tmp_path)))
    counts = Counter(chain(*pieces))

    found = [*duplicates.repeated_hashes(search, (np.array(piece, np.uint64).tobytes() for piece in pieces))]

    often = {number: count for number, count in counts.items() if count > 1}
    assert [one.events for one in found if isinstance(one, duplicates.Repeated)] == [sum(often.values())] * bool(often)
    files = [one.file for one in found if isinstance(one, duplicates.Repeated)]
    assert [number for file in files for number in pq.read_table(tmp_path / file)["hash"].to_pylist()] == sorted(often)


def test_the_event_of_the_older_topic_stays(tmp_path: Path) -> None:
    old, new = sales([("a", 1)]), sales([("a", 1)])
    topics = [pa.array([topic]) for topic in ("Z", "A")]
    suspects = pa.concat_tables([one.set_column(0, "_topic_id", topic) for one, topic in zip((old, new), topics, strict=True)])
    search = duplicates.Search(FILES, "sales", Location(str(tmp_path)), Location(str(tmp_path)), generations=("Z", "A"))

    (found,) = duplicates.judged(search, iter([to_ipc(suspects)]))
    assert pq.read_table(tmp_path / found.files[0])["_topic_id"].to_pylist() == ["A"]


def test_the_hash_is_of_identity_and_event_time() -> None:
    assert IdentityHash.of_source(SOURCE) == IDENTITY


@pytest.mark.parametrize("hashes", [(True, True), (True, False), (False, True), (False, False)])
def test_stored_hashes_are_read_instead_of_identities_where_all_files_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hashes: tuple[bool, ...]
) -> None:
    """A search without a Spark job, and whose tasks hash only the events of files that lack the hashes."""
    ids = [[(f"i{n % 90}", 0) for n in range(100)], [(f"i{n}", 0) for n in range(60, 160)]]
    tables = [sales(some, partition=partition) for partition, some in enumerate(ids)]
    place = Location(str(tmp_path))
    ranges = Ranges.of({("T", 0): (0, 100), ("T", 1): (0, 100)})
    slices = cut(stored(place, tables, hashes), ranges, rows=30)
    search = duplicates.Search(FILES, "sales", place, place)
    expected = [np.sort(IDENTITY.made(table).to_numpy()) for table in tables]
    hashed: list[int] = []
    made = IdentityHash.made

    def counted(self: IdentityHash, events: pa.Table) -> pa.ChunkedArray:
        hashed.append(events.num_rows)
        return made(self, events)

    monkeypatch.setattr(IdentityHash, "made", counted)
    by_driver = duplicates._stored_hashes(search, slices)
    assert (by_driver is not None) == all(hashes)
    assert hashed == [] or not all(hashes)
    hashed.clear()
    pieces = [duplicates._slice_hashes(search, part) for part in slices]
    assert by_driver in (None, pieces)
    assert np.array_equal(np.sort(np.frombuffer(b"".join(pieces), np.uint64)), np.sort(np.concatenate(expected)))
    assert sum(hashed) == 100 * hashes.count(False)


def test_parts_of_hashes_have_all_that_are_equal_together() -> None:
    dice = random.Random(3)
    limits = [0, 1, 2**62, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1]
    pieces = [
        np.sort(np.array(dice.choices(limits, k=20) + [dice.randrange(2**64) for _ in range(20)], np.uint64)) for _ in range(3)
    ]
    for parts in (1, 2, 3, 4):
        found = [
            np.concatenate([np.frombuffer(one, np.uint64) for one in part])
            for part in duplicates.by_value([*map(bytes, pieces)], parts)
        ]
        assert len(found) == parts
        assert np.array_equal(np.sort(np.concatenate(found)), np.sort(np.concatenate(pieces)))
        assert all(low.max() < high.min() for low, high in pairwise(found))
