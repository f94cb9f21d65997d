"""A journal numbers its rows without holes or repeats, with any number of writers, and stays fast to read."""

import threading

import pyarrow as pa
import pytest

from tandem.ledger.delta import delta_tables, journal
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.journal import Journal, JournalSnapshot

SCHEMA = pa.schema([("text", pa.string()), ("seen", pa.list_(pa.int64()))])


@pytest.fixture
def notes(tables: Tables) -> Journal:
    return Journal(tables, tables.control("notes"), SCHEMA)


def seen(snapshot: JournalSnapshot) -> dict[str, object]:
    return {"text": "x", "seen": [row["number"] for row in snapshot.rows()]}


def test_an_absent_journal_is_empty(notes: Journal) -> None:
    assert (notes.read().newest(), notes.read().rows()) == (None, [])


def test_every_row_is_derived_from_all_before_it(notes: Journal) -> None:
    def write() -> None:
        for _ in range(5):
            notes.add(seen)

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = notes.read().rows()
    assert [row["number"] for row in rows] == list(range(1, 16))
    assert all(row["seen"] == list(range(1, row["number"])) for row in rows)


def test_nothing_is_added_if_nothing_is_derived(notes: Journal) -> None:
    assert notes.add(lambda _: None) is None
    assert notes.read().rows() == []


def test_many_files_become_one_and_every_row_stays(notes: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_FILES", 3)
    for number in range(1, 12):
        notes.add(seen)
        newest = notes.read().newest()
        assert newest is not None
        assert newest["number"] == number
        assert [row["number"] for row in notes.read().rows()] == list(range(1, number + 1))
    handle = notes.read().handle
    assert handle is not None
    assert len(delta_tables.files(handle)) <= 4


def test_reading_the_newest_row_reads_one_file(notes: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(5):
        notes.add(seen)
    real, read = delta_tables.read_file, []

    def counted(handle: object, path: str) -> pa.Table:
        read.append(path)
        return real(handle, path)  # type: ignore[arg-type]

    monkeypatch.setattr(delta_tables, "read_file", counted)
    newest = notes.read().newest()
    assert newest is not None
    assert (newest["number"], len(read)) == (5, 1)
