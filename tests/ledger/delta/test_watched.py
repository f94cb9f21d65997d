"""A polled table is read if it has changed, and only then."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Unreadable, Vanished
from tandem.ledger.delta.journal import Journal, JournalSnapshot
from tandem.ledger.delta.watched_table import Watched
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.publish.publications import Publications
from tandem.views.source.offset_ranges import Ranges
from tests.ledger.tiny import AT, SOURCE, at, publish_cut


@pytest.fixture
def table(tables: Tables) -> str:
    """Where a table is, or will be."""
    return tables.view("watched", "f")


def append(table: str, *numbers: int) -> None:
    write_deltalake(table, pa.table({"n": numbers}), mode="append")


def numbers(handle: DeltaTable | None) -> list[int]:
    return (
        []
        if handle is None
        else sorted(n for path in delta_tables.files(handle) for n in delta_tables.read_file(handle, path)["n"].to_pylist())
    )


def watching(tables: Tables, table: str, *commits: int) -> Watched[list[int]]:
    """One who has seen the table after these commits of a number each."""
    watched = Watched(tables, table, numbers)
    for n in commits:
        append(table, n)
    watched.read()
    return watched


def refused(*_: object) -> DeltaTable:
    raise AssertionError("nothing is new")


def quiet(monkeypatch: pytest.MonkeyPatch, look: Callable[[], object]) -> object:
    """What is seen while nobody may open or refresh a table."""
    with monkeypatch.context() as patch:
        patch.setattr(delta_tables, "open_table", refused)
        patch.setattr(delta_tables, "refresh", refused)
        return look()


def test_a_table_exists_once_it_is_created(tables: Tables, table: str) -> None:
    watched = Watched(tables, table, numbers)
    assert watched.read() == []
    assert watched.read() == []
    append(table, 1)
    assert watched.read() == [1]


def test_an_unchanged_table_is_not_read(tables: Tables, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(tables, table, numbers)
    for n in range(3):
        append(table, n)
        first = watched.read()
        assert first == [*range(n + 1)]
        assert quiet(monkeypatch, watched.read) is first


def test_a_temporary_failure_of_the_file_system_breaks_nothing(
    tables: Tables, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(path: Path) -> object:
        raise OSError(errno.ESTALE, "stale file handle", str(path))

    watched = watching(tables, table, 1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", stale)
        assert watched.read() == [1]
        assert Watched(tables, table, numbers).read() == [1]
    append(table, 2)
    assert watched.read() == [1, 2]


@pytest.mark.parametrize(
    "after", [[], [5], [3, 4], [3, 4, 5]], ids=["deleted", "by a shorter one", "by its equal", "by a longer one"]
)
def test_a_replaced_table_is_read_again(tables: Tables, table: str, after: list[int]) -> None:
    watched = watching(tables, table, 1, 2)
    shutil.rmtree(table)
    for n in after:
        append(table, n)
    assert watched.read() == after


def test_a_reader_that_missed_expired_entries_reads_the_newest_version(tables: Tables, table: str) -> None:
    watched = watching(tables, table, 0)
    for n in range(1, 4):
        append(table, n)
    DeltaTable(table).create_checkpoint()
    for version in range(3):
        (Path(table) / "_delta_log" / f"{version:020}.json").unlink()
    assert watched.read() == [0, 1, 2, 3]


def test_a_torn_entry_is_reported_until_it_is_complete(tables: Tables, table: str) -> None:
    watched = watching(tables, table, 1)
    append(table, 2)
    entry = Path(table) / "_delta_log" / f"{1:020}.json"
    whole = entry.read_bytes()
    entry.write_bytes(whole[: len(whole) // 2])
    for _ in range(2):
        with pytest.raises(Unreadable):
            watched.read()
    entry.write_bytes(whole)
    assert watched.read() == [1, 2]


def test_a_failed_computation_is_tried_again(tables: Tables, table: str) -> None:
    append(table, 1)
    wrong = [Vanished("a file is gone")]

    def make(handle: DeltaTable | None) -> list[int]:
        if wrong:
            raise wrong.pop()
        return numbers(handle)

    watched = Watched(tables, table, make)
    with pytest.raises(Vanished):
        watched.read()
    assert watched.read() == [1]


def test_a_cached_value_of_a_journal_is_computed_only_for_new_rows(tables: Tables) -> None:
    journal, made = Journal(tables, tables.control("names"), pa.schema([("name", pa.string())])), []

    def names(snapshot: JournalSnapshot) -> list[str]:
        made.append(snapshot)
        return [row["name"] for row in snapshot.rows()]

    watched = journal.watched(names)
    assert watched.read() == []
    for expected in (["a"], ["a", "b"]):
        journal.add(lambda _, name=expected[-1]: {"name": name})
        before = len(made)
        assert watched.read() == expected
        assert watched.read() == expected
        assert len(made) == before + 1


def test_gaps_and_publications_are_watched(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    live, recorded = Publications(tables), Gaps(tables)
    assert (live.latest(), recorded.every()) == (None, ())
    for n in range(2):
        published = publish_cut(tables, at(0, 0))
        Gaps(tables).record(SOURCE, Ranges.of({("T", 0): (2 * n, 2 * n + 1)}), reason="lost", at=AT)
        assert live.latest() == published == Publications(tables).latest()
        assert recorded.every() == Gaps(tables).every()
        assert len(recorded.every()) == n + 1
        assert quiet(monkeypatch, lambda: (live.latest(), recorded.every())) == (live.latest(), recorded.every())
