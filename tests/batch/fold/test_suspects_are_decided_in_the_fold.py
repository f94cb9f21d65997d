"""A full fold that decides which events are duplicates counts what the kernel counts of the whole log at once."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.batch.fold import duplicates, fold, fold_job
from tandem.batch.runtime import spark_jobs
from tandem.ledger.delta.location import Location
from tandem.ledger.files.identity_hashes import IdentityHash
from tandem.ledger.files.splits import Slice, cut
from tandem.ledger.stored_states import stored
from tandem.views.kernel import kernel
from tandem.views.project import project
from tandem.views.source.offset_ranges import EMPTY, Ranges
from tandem.views.source.source import events_schema
from tandem.views.source.watermark import maxima_of, newest
from tests.batch.fold.test_duplicates_are_exact import FILES, SOURCE
from tests.batch.fold.test_duplicates_are_exact import stored as written
from tests.one_process import Tasks

VIEW = project.load_files(FILES).views["per_hour"]
START = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = 600


def sales(dice: random.Random, partition: int, ids: int) -> pa.Table:
    """Events whose duplicates have other partitions, append times and sometimes other contents."""
    rows = []
    for offset in range(ROWS):
        number = dice.randrange(ids)
        row = {"_topic_id": "T", "_partition": partition, "_offset": offset}
        row["_append_time"] = START + timedelta(seconds=dice.randrange(10_000))
        row |= {"id": f"i{number}", "at": START + timedelta(hours=number % 5), "shop": f"s{number % 7}"}
        rows.append({**row, "cents": number + (dice.random() < 0.2)})
    return pa.Table.from_pylist(rows, schema=events_schema(SOURCE))


def states(table: pa.Table) -> list[Any]:
    return sorted(table.to_pylist(), key=repr)


@pytest.mark.parametrize("ids", [1, 40, pytest.param(900, marks=pytest.mark.slow), 10_000_000])
@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("hashes", [2**64 - 1, 5])
@pytest.mark.parametrize("files", [(), (True, True), (True, False)])
def test_the_fold_counts_what_the_kernel_counts(
    tmp_path: Path, ids: int, buckets: int, hashes: int, files: tuple[bool, ...]
) -> None:
    """Also if different identities have equal hashes: of five hashes each is many events'. Files may have hashes or not."""
    made = IdentityHash.made
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IdentityHash, "made", lambda *of: pa.chunked_array([made(*of).to_numpy() % np.uint64(hashes)]))
        _folds_as_the_kernel_does(tmp_path, ids=ids, buckets=buckets, hashes=hashes, files=files)


def _folds_as_the_kernel_does(tmp_path: Path, *, ids: int, buckets: int, hashes: int, files: tuple[bool, ...]) -> None:
    dice = random.Random(f"{ids} {buckets}")
    tables = [sales(dice, partition, ids) for partition in (0, 1)]
    whole = pa.concat_tables(tables)
    expected = kernel.deduplicate(SOURCE, whole)
    events, scratch, view = (Location(str(tmp_path / name)) for name in ("events", "scratch", "view"))
    ranges = Ranges.of({("T", 0): (0, ROWS), ("T", 1): (0, ROWS)})
    slices = cut(written(events, tables, files), ranges, rows=ROWS // 3)
    search = duplicates.Search(FILES, "sales", events, scratch)

    found = duplicates.find(Tasks(), search, slices, parallelism=2, undecided=True)  # type: ignore[arg-type]
    job = fold_job.FoldJob(FILES, "sales", events, {"per_hour": view}, scratch, (), 9, buckets, suspects=found.suspects)
    done = fold.fold(Tasks(), job, slices)  # type: ignore[arg-type]

    assert (found.duplicates, found.files) == (0, ())
    assert bool(found.suspects) == (hashes == 5 or expected.duplicates > 0)
    assert (done.decided.duplicates, done.decided.conflicts) == (expected.duplicates, expected.conflicts)
    assert sum(part.events for part in done.counted) == expected.events.num_rows
    assert newest(part.maxima for part in done.counted) == maxima_of(SOURCE, expected.events)
    built = [state for one in done.built for state in stored(VIEW, view, one.file.path, ())]
    assert states(pa.concat_tables(built)) == states(kernel.partial(VIEW, expected.events, EMPTY).states)


def test_of_duplicates_in_two_generations_the_one_in_the_older_topic_counts(tmp_path: Path) -> None:
    """Whatever the topics' ids are: a task and each bucket order the log by the same generations."""
    dice, topics = random.Random(11), ("Z", "A")
    tables = []
    for topic in topics:
        table = sales(dice, 0, 40)
        column = table.schema.get_field_index("_topic_id")
        ids = pa.array([topic] * table.num_rows).cast(table.schema.field(column).type)
        tables.append(table.set_column(column, table.schema.field(column), ids))
    expected = kernel.deduplicate(SOURCE, pa.concat_tables(tables), generations=topics)
    events, scratch, view = (Location(str(tmp_path / name)) for name in ("events", "scratch", "view"))
    spans = [replace(span, topics=(topic, topic)) for span, topic in zip(written(events, tables), topics, strict=True)]
    slices = cut(spans, Ranges.of({(topic, 0): (0, ROWS) for topic in topics}), rows=ROWS // 3)
    search = duplicates.Search(FILES, "sales", events, scratch, topics)
    suspects = duplicates.find(Tasks(), search, slices, parallelism=2, undecided=True).suspects  # type: ignore[arg-type]
    job = fold_job.FoldJob(FILES, "sales", events, {"per_hour": view}, scratch, (), 9, 2, generations=topics, suspects=suspects)
    done = fold.fold(Tasks(), job, slices)  # type: ignore[arg-type]

    assert (done.decided.duplicates, done.decided.conflicts) == (expected.duplicates, expected.conflicts)
    built = [state for one in done.built for state in stored(VIEW, view, one.file.path, ())]
    assert states(pa.concat_tables(built)) == states(kernel.partial(VIEW, expected.events, EMPTY).states)
    wrong = kernel.deduplicate(SOURCE, pa.concat_tables(tables), generations=topics[::-1])
    assert states(kernel.partial(VIEW, wrong.events, EMPTY).states) != states(pa.concat_tables(built))


def test_many_suspects_are_not_left_to_the_fold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each merging task compares all suspects. If they are many, tasks of their own compare them."""
    dice = random.Random(8)
    events, scratch = Location(str(tmp_path / "events")), Location(str(tmp_path / "scratch"))
    slices = cut(written(events, [table := sales(dice, 0, 40)]), Ranges.of({("T", 0): (0, ROWS)}), rows=ROWS // 3)
    search = duplicates.Search(FILES, "sales", events, scratch)
    suspects = duplicates.find(Tasks(), search, slices, parallelism=2, undecided=True)  # type: ignore[arg-type]
    monkeypatch.setattr(duplicates, "FEW_SUSPECTS", ROWS - 1)
    decided = duplicates.find(Tasks(), search, slices, parallelism=2, undecided=True)  # type: ignore[arg-type]

    assert (bool(suspects.suspects), bool(suspects.files)) == (True, False)
    assert (bool(decided.suspects), bool(decided.files)) == (False, True)
    assert decided.duplicates == kernel.deduplicate(SOURCE, table).duplicates


@pytest.mark.parametrize("searched", [None, Ranges.of({("T", 0): (ROWS, ROWS + 9)})])
def test_offsets_without_events_have_no_duplicates(tmp_path: Path, searched: Ranges | None) -> None:
    events = Location(str(tmp_path / "events"))
    (span,) = written(events, [sales(random.Random(10), 0, 40)])
    search = duplicates.Search(FILES, "sales", events, Location(str(tmp_path / "scratch")), searched=searched)
    empty = [Slice(Ranges.of({("T", 0): (ROWS, ROWS + 9)}), (span.path,), 0)]

    assert duplicates.find(Tasks(), search, empty, parallelism=2) == duplicates.RepeatedHashes()  # type: ignore[arg-type]


def test_shuffled_hashes_and_hashes_that_the_driver_sorts_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(9)
    events, scratch = Location(str(tmp_path / "events")), Location(str(tmp_path / "scratch"))
    slices = cut(written(events, [sales(dice, 0, 300)]), Ranges.of({("T", 0): (0, ROWS)}), rows=ROWS // 3)
    search = duplicates.Search(FILES, "sales", events, scratch)

    def hashes() -> list[int]:
        found = duplicates.find(Tasks(), search, slices, parallelism=2, undecided=True)  # type: ignore[arg-type]
        read: list[int] = duplicates.read_hashes(scratch, found.suspects).tolist()
        return read

    sorted_by_the_driver = hashes()
    monkeypatch.setattr(duplicates, "DRIVER_HASHES", ROWS - 1)
    assert hashes() == sorted_by_the_driver
    slices = cut(written(events, [sales(random.Random(9), 0, 300)], (True,)), Ranges.of({("T", 0): (0, ROWS)}), rows=ROWS // 3)
    monkeypatch.setattr(spark_jobs, "each_then", None)  # no job
    assert hashes() == sorted_by_the_driver
    monkeypatch.setattr(duplicates, "HASHES", ROWS // 4)
    assert hashes() == sorted_by_the_driver
    assert sorted_by_the_driver


LIMITS = [*range(4), *(2**bits + step for bits in (41, 42, 59, 60, 63) for step in (-1, 0, 1)), 2**64 - 2, 2**64 - 1]


@given(st.lists(st.sampled_from(LIMITS)), st.lists(st.sampled_from(LIMITS)), st.sampled_from([1, 5, 22]))
def test_hashes_are_found_among_others(hashes: list[int], others: list[int], most_bits: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "_MOST_BITS", most_bits)
        found = duplicates.found_among(np.array(hashes, np.uint64), np.array(sorted(others), np.uint64))

    assert found.tolist() == [one in others for one in hashes]
