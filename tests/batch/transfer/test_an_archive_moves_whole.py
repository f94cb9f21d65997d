"""Export and import move the archive record for record, after any interruption, and accept nothing else."""

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.batch.runtime import delta_commits
from tandem.batch.runtime.parquet_writer import TableFile
from tandem.batch.transfer import export_archive, import_archive
from tandem.batch.transfer.export_archive import NotExported
from tandem.batch.transfer.import_archive import Imported, NotImported
from tandem.infra.settings import BatchSettings, Settings, StorageSettings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log import manifest
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.log.manifest import BadManifest
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Releases
from tandem.views.errors import TandemError
from tandem.views.project import project
from tandem.views.source.offset_ranges import Ranges
from tests.batch.filed import AT, DEFINITIONS, SOURCE, Filed, in_order, row, rows_in
from tests.infra.storage.s3 import a_bucket
from tests.samples import just

DECODER = "d"


def installation(folder: Path) -> Filed:
    """A state folder with a release of one source."""
    return released(Tables(str(folder / "state")))


def released(tables: Tables) -> Filed:
    """Tables with a release of one source."""
    files = {"definitions.py": DEFINITIONS, "tandem.toml": b""}
    project.load_files(files)
    Releases(tables).store(files, sources={SOURCE: DECODER}, views={}, by="test", at=AT)
    Publications(tables).initial(release=1, sources=[SOURCE], views={}, by="test", at=AT)
    return Filed(tables)


def export(filed: Filed, folder: Path) -> Path:
    filed.finish(DECODER)
    export_archive.run(filed.tables, [SOURCE], folder, say=lambda _: None)
    return folder


def take(filed: Filed, folder: Path) -> Imported:
    storage = StorageSettings(root=filed.tables.root, options=dict(filed.tables.options))
    settings = Settings(state=str(folder.parent / "host"), storage=storage, batch=BatchSettings(lock_wait_s=0))
    (done,) = import_archive.run(settings, folder, [SOURCE], now=lambda: AT, say=lambda _: None)
    return done


def history(filed: Filed) -> dict[str, Any]:
    """All that an archive says of the log."""
    tables = filed.tables
    ledger = ArchiveLedger(tables, SOURCE)
    end = ledger.archived()
    return {
        "rows": rows_in(tables),
        "end": end,
        "firsts": {partition: ledger.firsts().get(partition, 0) for partition in end},
        "generations": ledger.generations(),
        "names": {topic: ledger.topic_names()[topic] for topic, _ in end},
        "gaps": Ranges().union(*(gap.ranges for gap in Gaps(tables).of(SOURCE))),
    }


def grow(filed: Filed, topic: str, spans: dict[int, tuple[int, int]], holes: frozenset[int] = frozenset()) -> None:
    """One run with a stretch of each of a topic's partitions, without some offsets."""
    filed.name("sales", topic)
    rows = [row(topic, n, offset) for n, (start, end) in spans.items() for offset in range(start, end) if offset not in holes]
    there = ArchiveLedger(filed.tables, SOURCE).archived()
    firsts = {(topic, n): start for n, (start, _) in spans.items() if (topic, n) not in there}
    filed.file(rows, {(topic, n): end for n, (_, end) in spans.items()}, firsts)


@pytest.fixture
def origin(tmp_path: Path) -> Filed:
    """Two generations of a topic: a partition that began at 5, one of holes only, one that was added, one gap."""
    made = installation(tmp_path / "origin")
    grow(made, "z", {0: (0, 30), 1: (5, 25)}, holes=frozenset(range(10, 14)))
    grow(made, "z", {0: (30, 40), 2: (0, 3)}, holes=frozenset(range(3)))
    made.lose(Ranges.of({("z", 1): (10, 14)}))
    grow(made, "a", {0: (0, 12)})
    return made


stretches = st.dictionaries(st.integers(0, 2), st.integers(1, 6), min_size=1)


@just(32, quick=3)
@given(st.lists(st.tuples(st.sampled_from("zba"), stretches), min_size=1, max_size=6), st.sets(st.integers(0, 20)), st.data())
def test_any_archive_is_imported_unchanged(runs: list, holes: set[int], data: st.DataObject) -> None:
    """In one go or after an earlier part of it; twice is once."""
    with TemporaryDirectory() as folder:
        here, there = installation(Path(folder) / "here"), installation(Path(folder) / "there")
        stop = data.draw(st.integers(0, len(runs)))
        reached: dict[tuple[str, int], int] = {}
        order = {topic: number for number, topic in enumerate(dict.fromkeys(topic for topic, _ in runs))}
        for number, (topic, lengths) in enumerate(sorted(runs, key=lambda run: order[run[0]])):
            spans = {n: (reached.get((topic, n), 0), reached.get((topic, n), 0) + length) for n, length in lengths.items()}
            reached |= {(topic, n): end for n, (_, end) in spans.items()}
            grow(here, topic, spans, frozenset(holes))
            if number + 1 == stop:
                assert take(there, export(here, Path(folder) / "first")).new
        last = export(here, Path(folder) / "last")
        assert take(there, last).new is (stop != len(runs))
        assert not take(there, last).new
        assert history(there) == history(here)
        assert rows_in(there.tables) == in_order(here.rows)


def test_generations_gaps_and_first_offsets_are_imported(origin: Filed, tmp_path: Path) -> None:
    other = installation(tmp_path / "other")
    done = take(other, export(origin, tmp_path / "moved"))
    assert (done.new, done.records, done.end) == (True, len(origin.rows), origin.end)
    assert history(other) == history(origin)
    assert history(other)["generations"] == ("z", "a")
    assert [run.imported for run in ArchiveLedger(other.tables, SOURCE).runs()] == [True, True]
    # What was imported can be exported again before it is decoded.
    third = installation(tmp_path / "third")
    export_archive.run(other.tables, [SOURCE], tmp_path / "again", say=lambda _: None)
    take(third, tmp_path / "again")
    assert history(third) == history(origin)


@pytest.mark.slow
def test_an_archive_moves_from_a_folder_to_a_bucket_and_back(origin: Filed, tmp_path: Path) -> None:
    with a_bucket() as (url, options):
        remote = released(Tables(f"{url}/tables", options))
        assert take(remote, export(origin, tmp_path / "to")).new
        assert history(remote) == history(origin)
        back = installation(tmp_path / "back")
        export_archive.run(remote.tables, [SOURCE], tmp_path / "from", say=lambda _: None)
    assert take(back, tmp_path / "from").new
    assert history(back) == history(origin)


def test_offsets_before_the_start_of_an_import_are_a_gap(origin: Filed, tmp_path: Path) -> None:
    """Who looked at the log first saw offsets that the export never had: no run will archive them."""
    other = installation(tmp_path / "other")
    ledger = ArchiveLedger(other.tables, SOURCE)
    ledger.record_firsts({("z", 0): 0, ("z", 1): 2, ("a", 0): 0}, at=AT)
    moved = export(origin, tmp_path / "moved")
    for _ in range(2):
        take(other, moved)
        found = {gap.name: gap.ranges for gap in Gaps(other.tables).of(SOURCE)}
        lost = Ranges.of({("z", 1): (2, 5)})
        assert found == {"sales-gap-1": Ranges.of({("z", 1): (10, 14)}), "sales-gap-2": lost}
        assert ledger.firsts()["z", 1] == 2


def test_runs_without_recorded_gaps_are_not_exported(origin: Filed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settled = origin.end
    monkeypatch.setattr(ArchiveLedger, "check", lambda *_, **__: None)
    grow(origin, "a", {0: (12, 20)})
    made = export_archive.run(origin.tables, [SOURCE], tmp_path / "moved", say=lambda _: None)
    assert Position.of({p: end for p, ((_, end),) in made.sources[SOURCE].ranges.intervals}) == settled


def test_an_incomplete_export_is_not_an_export(origin: Filed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = installation(tmp_path / "empty")
    with pytest.raises(NotExported, match="source 'sales' has no archived records"):
        export_archive.run(empty.tables, [SOURCE], tmp_path / "none", say=lambda _: None)
    folder = tmp_path / "moved"
    with monkeypatch.context() as patch:
        patch.setattr(manifest, "write", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            export(origin, folder)
    assert list(folder.glob("*/*.parquet"))
    with pytest.raises(BadManifest, match="is not an export"):
        take(empty, folder)
    made = export(origin, folder)
    held = {stretch.file.path for stretch in import_archive.read(made).sources[SOURCE].stretches if stretch.file}
    assert {str(file.relative_to(made)) for file in made.rglob("*.parquet")} == held
    assert {entry.name for entry in made.iterdir()} == {SOURCE, manifest.FILE}
    with pytest.raises(NotExported, match="is not empty"):
        export_archive.run(origin.tables, [SOURCE], folder, say=lambda _: None)


def _interrupt(*_: object) -> Any:
    raise KeyboardInterrupt


def test_a_killed_import_is_finished_by_the_next_one(origin: Filed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each call that changes the state."""
    folder, expected = export(origin, tmp_path / "moved"), history(origin)
    parts: list[tuple[Any, str]] = [
        (ArchiveLedger, "intend"),
        (ArchiveLedger, "name_topics"),
        (Gaps, "record"),
        (delta_commits, "make_table"),
        (delta_commits, "add_files"),
        (TableFile, "__exit__"),
    ]
    for killed in count():
        other, calls = installation(tmp_path / f"other-{killed}"), iter(range(10**6))

        def dying(real: Callable[..., Any], calls: Iterator[int] = calls, killed: int = killed) -> Callable[..., Any]:
            def call(*args: Any, **named: Any) -> Any:
                if next(calls) == killed:
                    raise KeyboardInterrupt
                return real(*args, **named)

            return call

        with monkeypatch.context() as patch:
            for place, name in parts:
                patch.setattr(place, name, dying(getattr(place, name)))
            try:
                take(other, folder)
            except KeyboardInterrupt:
                whole = False
            else:
                whole = True
        # All or nothing is visible.
        assert rows_in(other.tables) in ([], expected["rows"])
        done = take(other, folder)
        assert history(other) == expected
        assert not take(other, folder).new
        if whole:
            assert (done.new, killed > 8) == (False, True)
            break


def test_an_archive_with_other_records_or_another_history_is_refused(origin: Filed, tmp_path: Path) -> None:
    folder = export(origin, tmp_path / "moved")

    def other(name: str) -> Filed:
        return installation(tmp_path / name)

    differing = other("differing")
    differing.name("sales", "z")
    differing.file([row("z", 0, n, seed=int(n == 7)) for n in range(10)], {("z", 0): 10})
    lacking = other("lacking")
    lacking.name("sales", "z")
    lacking.file([row("z", 0, n) for n in range(10) if n != 4], {("z", 0): 10})
    own = other("own")
    grow(own, "mine", {0: (0, 4)})
    early = other("early")
    grow(early, "z", {1: (0, 4)})
    late = other("late")
    grow(late, "z", {0: (2, 9)})
    cut = other("cut")
    cut.name("sales", "z")
    ArchiveLedger(cut.tables, SOURCE).intend(start=LOG_START, end=Position.of({("z", 0): 3}), by="archive", at=AT)
    refused = [
        (differing, "different records at offset 7 of partition 0 of topic z"),
        (lacking, "different records at offset 4 of partition 0 of topic z"),
        (own, "begins with the topics mine, the export with z, a: neither continues where the other ends"),
        (early, "has partition 1 of topic z from 0 to 4, the export from 5 to 25"),
        (late, "has partition 0 of topic z from 2 to 9, the export from 0 to 40"),
        (cut, "an archive run of source 'sales' is incomplete"),
    ]
    for filed, sentence in refused:
        before = history(filed)
        with pytest.raises(NotImported, match=sentence):
            take(filed, folder)
        assert history(filed) == before
    with pytest.raises(NotImported, match=r"has records of source 'sales', which the project does not define; sources: others"):
        import_archive.run(Settings(state=str(tmp_path / "x")), folder, ["others"], now=lambda: AT, say=lambda _: None)


def test_an_archive_with_more_records_or_another_part_continues(origin: Filed, tmp_path: Path) -> None:
    more, folder = installation(tmp_path / "more"), export(origin, tmp_path / "moved")
    grow(more, "z", {0: (0, 35), 1: (5, 60)}, holes=frozenset(range(10, 14)))
    assert take(more, folder).end == Position.of({("z", 0): 40, ("z", 1): 60, ("z", 2): 3, ("a", 0): 12})
    assert not take(more, folder).new
    own = [one for one in more.rows if one["partition"] == 1 or one["offset"] < 35]
    new = [one for one in origin.rows if one["topic_id"] == "a" or (one["partition"] == 0 and one["offset"] >= 35)]
    assert rows_in(more.tables) == in_order(own + new)


def test_a_changed_file_is_refused(origin: Filed, tmp_path: Path) -> None:
    folder, other = export(origin, tmp_path / "moved"), installation(tmp_path / "other")
    made = import_archive.read(folder)
    one = max((stretch for stretch in made.sources[SOURCE].stretches if stretch.file), key=lambda one: one.rows)
    assert one.file is not None
    path = folder / one.file.path
    document, content = (folder / manifest.FILE).read_text(), path.read_bytes()

    def relabel(text: str) -> str:
        """The manifest with the hash and size of what is there now."""
        assert one.file is not None
        return text.replace(one.file.sha256, export_archive.sha256(path)).replace(
            f'"bytes": {one.file.bytes}', f'"bytes": {path.stat().st_size}'
        )

    def damage() -> None:
        path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])

    def other_columns() -> None:
        pq.write_table(pq.read_table(path).drop_columns("key"), path)

    def fewer() -> None:
        pq.write_table(pq.read_table(path).slice(1), path)

    def disordered() -> None:
        rows = pq.read_table(path)
        pq.write_table(rows.take([1, 0, *range(2, rows.num_rows)]), path)

    def repeated() -> None:
        rows = pq.read_table(path)
        pq.write_table(rows.take([0, 0, *range(2, rows.num_rows)]), path)

    def elsewhere() -> None:
        rows = pq.read_table(path)
        pq.write_table(rows.set_column(1, rows.schema.field(1), pa.array([9] * rows.num_rows, pa.int32())), path)

    def beyond() -> None:
        rows = pq.read_table(path)
        moved = pa.array([*rows["offset"].to_pylist()[:-1], 10**6])
        pq.write_table(rows.set_column(2, rows.schema.field(2), moved), path)

    def link() -> None:
        shutil.copy(path, tmp_path / "aside.parquet")
        path.unlink()
        path.symlink_to(tmp_path / "aside.parquet")

    for change, hashed, sentence in (
        (damage, False, "its SHA-256 differs"),
        (path.unlink, False, "cannot be read"),
        (link, False, "is a link out of"),
        (other_columns, True, "not those of an archive"),
        (fewer, True, "its manifest says"),
        (disordered, True, r"has offset \d+ of partition \d of topic \w after"),
        (repeated, True, r"has offset \d+ of partition \d of topic \w after"),
        (elsewhere, True, "records outside partition"),
        (beyond, True, "beyond its"),
    ):
        change()
        if hashed:
            (folder / manifest.FILE).write_text(relabel(document))
        with pytest.raises(TandemError, match=sentence):
            take(other, folder)
        assert (rows_in(other.tables), ArchiveLedger(other.tables, SOURCE).runs()) == ([], [])
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        (folder / manifest.FILE).write_text(document)
    assert take(other, folder).new
