"""Following a table reads every file once, and never mistakes a rewritten commit for a new one."""

import pytest

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Vanished
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.realtime import follower
from tandem.ledger.realtime.commit_files import read_commit
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.compaction import RECENT
from tandem.ledger.realtime.follower import Follower
from tandem.ledger.realtime.tiling import chain
from tests.ledger.tiny import AT, SOURCE, added, at, claim, commit_each, merge


def follow(tables: Tables) -> Follower:
    return Follower(tables, 1, SOURCE)


def ends(commits: tuple[Commit, ...], since: tuple[Commit, ...] = ()) -> list[Position]:
    """Of the commits that are new to who has seen others; they go on where those end."""
    new = added(commits, since)
    assert new is not None
    return [commit.end for commit in new]


def test_a_missing_table_has_no_commits(tables: Tables) -> None:
    follower = follow(tables)
    assert follower.poll() == ()
    commit_each(claim(tables), at(1, 1))
    assert ends(follower.poll()) == [at(1, 1)]


def test_no_file_is_read_twice(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, following = claim(tables), follow(tables)
    read: list[str] = []

    def counted(handle: object, path: str) -> object:
        read.append(path)
        return read_commit(handle, path)  # type: ignore[arg-type]

    monkeypatch.setattr(follower, "read_commit", counted)
    for n in range(1, 6):
        commit_each(writer, at(n, n))
        following.poll()
    assert len(read) == len(set(read)) == 6


def test_an_unchanged_table_is_not_processed_again(tables: Tables) -> None:
    writer, follower = claim(tables), follow(tables)
    commit_each(writer, at(1, 1), at(2, 2))
    first = follower.poll()
    assert follower.poll() is first
    commit_each(writer, at(3, 2))
    assert follower.poll()[:-1] == first


def test_a_reader_that_lacks_only_recent_commits_never_restarts(tables: Tables) -> None:
    writer, follower = claim(tables), follow(tables)
    found: tuple[Commit, ...] = ()
    for number in range(1, 40):
        commit_each(writer, at(number, number))
        if number % 2:
            writer.compact(merge, live=LOG_START, at=AT, fanout=2, recent=RECENT)
            before, found = found, follower.poll()
            assert ends(found, before)[-1] == at(number, number)
            assert chain(found, LOG_START).end == at(number, number)
    assert len(found) < 10


def test_expired_commits_leave_the_list(tables: Tables) -> None:
    writer, follower = claim(tables), follow(tables)
    commit_each(writer, at(1, 1), at(2, 2))
    before = follower.poll()
    writer.expire([at(1, 1)], at=AT)
    found = follower.poll()
    assert ends(found, before) == []
    assert [commit.end for commit in found if not commit.mark] == [at(2, 2)]


def test_a_reader_that_missed_expired_entries_continues(tables: Tables) -> None:
    """Its handle's next log entries are gone: it opens the table anew and still reads only what is new."""
    writer, follower = claim(tables), follow(tables)
    commit_each(writer, at(1, 1))
    before = follower.poll()
    commit_each(writer, at(2, 2), at(3, 3))
    handle = delta_tables.open_table(tables, tables.realtime(1, SOURCE))
    assert handle is not None
    handle.create_checkpoint()
    delta_tables.storage(handle).delete(f"_delta_log/{version:020}.json" for version in range(handle.version()))
    commit_each(writer, at(4, 4))
    assert ends(follower.poll(), before) == [at(2, 2), at(3, 3), at(4, 4)]


def test_a_missing_file_is_reported(tables: Tables) -> None:
    commit_each(claim(tables), at(1, 1))
    handle = delta_tables.open_table(tables, tables.realtime(1, SOURCE))
    assert handle is not None
    delta_tables.storage(handle).delete(delta_tables.files(handle))
    with pytest.raises(Vanished, match=r"cannot read table .*realtime/1/numbers.*was deleted; restore it"):
        follow(tables).poll()
