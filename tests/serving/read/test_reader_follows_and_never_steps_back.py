"""A reader follows every commit and publication, whatever happens between two polls, and never steps back."""

from dataclasses import replace
from pathlib import Path

import pytest

from tandem.ledger import cut_decision
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.journal import JournalSnapshot
from tandem.ledger.delta.watched_table import Watched
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.batch_parts import BatchPart
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.realtime import commit_files
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime_writer import Writer
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Value
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.read.snapshot_follower import SnapshotFollower
from tests.serving.world import NOON, SOURCE, World, hit, position


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.append(0, *(hit("/", n) for n in range(1, 31)))
    return made


def counted(reader: Reader) -> int:
    answer = reader.answer("ever")
    assert isinstance(answer, Value)
    return int(answer.rows()[0]["n"])


def expire(world: World, *retained: Position) -> None:
    assert world.writer.expire(retained, at=NOON)


def test_only_new_files_are_read_and_only_new_commits_decoded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = commit_files.read_commit
    monkeypatch.setattr(
        "tandem.ledger.realtime.follower.read_commit", lambda handle, path: (read.append(path), real(handle, path))[1]
    )
    reader = Reader(world.tables)
    for n, end in enumerate((5, 10, 15), start=1):
        world.trigger(position(end))
        reader.refresh()
        assert counted(reader) == end
        assert len(read) == n + 1  # the writer's claim is a commit too
    assert len(set(read)) == len(read)


def test_a_tail_is_rebuilt_if_commits_or_the_cut_changed(world: World) -> None:
    reader = SnapshotFollower(world.tables)

    def made() -> RealtimeTail:
        found = reader.refresh()
        assert isinstance(found, Snapshot)
        return found.tails[SOURCE]

    world.trigger(position(10))
    first = made()
    assert made() is first
    world.trigger(position(20))
    second = made()
    assert (first.end, second.end) == (position(10), position(20))
    world.recompute(position(10))
    third = made()
    assert (third.cut, third.end) == (position(10), position(20))


def test_an_answer_stays_as_pinned_until_refresh(world: World) -> None:
    reader = Reader(world.tables)
    world.trigger(position(5))
    assert counted(reader) == 5
    world.trigger(position(10))
    assert counted(reader) == 5
    reader.refresh()
    assert counted(reader) == 10


def test_compaction_and_expiry_under_a_pinned_reader_change_nothing(world: World) -> None:
    reader = Reader(world.tables)
    for end in range(2, 18, 2):
        world.trigger(position(end))
    reader.refresh()
    assert world.compact()
    assert counted(reader) == 16
    world.trigger(position(20))
    reader.refresh()
    assert counted(reader) == 20
    world.recompute(position(20))
    expire(world, position(20))
    assert counted(reader) == 20
    reader.refresh()
    assert counted(reader) == 20


def test_a_publication_that_flips_between_two_reads_is_read_once_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for end in (10, 20, 30):
        world.trigger(position(end))
    real, looks, flipping = Watched.read, [], False

    def read(watched: "Watched[JournalSnapshot]") -> JournalSnapshot:
        nonlocal flipping
        found = real(watched)
        if flipping or watched.address != world.tables.control("publications"):
            return found
        looks.append(found.newest())
        if len(looks) == 1:  # right after the reader's first look at the publication
            flipping = True
            world.recompute(position(10))
            world.recompute(position(20))
            expire(world, position(10), position(20))
            flipping = False
        return found

    monkeypatch.setattr(Watched, "read", read)
    assert counted(Reader(world.tables)) == 30
    assert [look["number"] for look in looks if look] == [1, 3]


def test_a_bridge_is_crossed_once_a_batch_view_covers_it(world: World) -> None:
    world.trigger(position(10))
    reader = Reader(world.tables)
    assert counted(reader) == 10
    cut_decision.bridge(world.tables, 1, SOURCE, to=position(20), by="test", at=NOON)
    world.writer = Writer.claim(world.tables, 1, SOURCE, by="test", at=NOON)
    world.trigger(position(25))
    reader.refresh()
    assert counted(reader) == 10
    assert reader.snapshot().tails[SOURCE].behind_bridge
    world.recompute(position(20))
    reader.refresh()
    assert counted(reader) == 25


def adopt(world: World, cut: Position) -> int:
    """The same definitions as the next release: batch first, its realtime table from its cut on."""
    old = Releases(world.tables).load(1)
    files = {**old.files, "tandem.toml": b"# changed"}
    release = Releases(world.tables).store(files, sources=old.sources, views=old.views, by="test", at=NOON).number
    handle = commit_files.open_or_create(world.tables, release, SOURCE)
    delta_tables.conditional_append(handle, commit_files.to_rows(Commit(LOG_START, cut, 1, "bridge", at=NOON, by="test")))
    parts = {name: BatchPart(7, world.write_version(name, 7, cut), cut) for name in world.project.views}

    def derive(parent: Publication | None) -> Publication:
        assert parent is not None
        views = {name: replace(view, parts=(parts[name],)) for name, view in parent.views.items()}
        return replace(parent, kind="promote", release=release, cuts={SOURCE: cut}, views=views)

    assert Publications(world.tables).publish(derive)
    return release


def test_a_release_that_is_behind_is_followed_only_once_it_has_caught_up(world: World) -> None:
    world.trigger(position(20))
    reader = Reader(world.tables)
    assert counted(reader) == 20
    release = adopt(world, position(10))
    reader.refresh()
    assert (counted(reader), reader.snapshot().publication.release) == (20, 1)
    world.trigger(position(22))  # the old speed layer goes on
    reader.refresh()
    assert (counted(reader), reader.snapshot().publication.release) == (22, 1)
    assert counted(Reader(world.tables)) == 10  # one that never answered before has nothing to step back from
    world.writer = Writer.claim(world.tables, release, SOURCE, by="test", at=NOON)
    world.trigger(position(21))
    reader.refresh()
    assert (counted(reader), reader.snapshot().publication.release) == (22, 1)
    world.trigger(position(25))
    reader.refresh()
    assert (counted(reader), reader.snapshot().publication.release) == (25, release)


def test_a_release_that_is_waited_for_is_read_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.trigger(position(20))
    reader = SnapshotFollower(world.tables)
    reader.refresh()
    release = adopt(world, position(10))
    world.writer = Writer.claim(world.tables, release, SOURCE, by="test", at=NOON)
    read: list[str] = []
    real = commit_files.read_commit
    monkeypatch.setattr(
        "tandem.ledger.realtime.follower.read_commit", lambda handle, path: (read.append(path), real(handle, path))[1]
    )
    for end in (12, 15, 18):
        world.trigger(position(end))
        for _ in range(2):
            found = reader.refresh()
            assert isinstance(found, Snapshot)
            assert found.publication.release == 1
    world.trigger(position(25))
    found = reader.refresh()
    assert isinstance(found, Snapshot)
    assert found.publication.release == release
    assert len(read) == len(set(read))


def test_positions_are_compared_partition_by_partition(world: World) -> None:
    world.append(1, *(hit("/one", n) for n in range(1, 31)))
    world.trigger(position(20, 1))
    reader = Reader(world.tables)
    assert counted(reader) == 21
    adopt(world, position(10, 30))  # further in all, but not everywhere
    reader.refresh()
    assert counted(reader) == 21
