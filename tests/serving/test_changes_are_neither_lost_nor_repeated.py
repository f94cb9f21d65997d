"""An answer plus its changes equals every later answer: no change is lost, and no known row is repeated."""

import threading
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.serving.changes import Changes, watch
from tandem.serving.connection import Connection
from tandem.serving.memory.changes_token import ChangesToken, TokenGone, token_of
from tandem.serving.memory.differences import identity
from tandem.serving.memory.layer import MemoryLayout
from tandem.serving.memory.store import MEMORY, Store
from tandem.serving.read.outcome import ReadFailed
from tandem.views.errors import TandemError
from tandem.views.view import View
from tests.samples import just
from tests.serving.memory.test_memory_equals_the_reader import MORE, VIEWS, Played, steps
from tests.serving.world import World, hit

Known = dict[tuple[Any, ...], dict[str, Any]]


def known(view: View, rows: list[dict[str, Any]]) -> Known:
    """Rows by what tells them apart, without labels."""
    place = identity(MemoryLayout(view, 0))
    found = {tuple(row[name] for name in place): {n: v for n, v in row.items() if n != "window_state"} for row in rows}
    assert len(found) == len(rows)
    return found


def taken_in(view: View, before: Known, change: Changes) -> Known:
    changed, gone = known(view, change.rows.to_arrow().to_pylist()), {tuple(row.values()) for row in change.gone.to_pylist()}
    assert all(before.get(place) != row for place, row in changed.items()), "sent again"
    assert gone <= before.keys()
    assert not gone & changed.keys()
    return {place: row for place, row in {**before, **changed}.items() if place not in gone}


def pending(connection: Connection, name: str, token: str) -> list[Changes]:
    """What there is from a token on, without waiting for more."""
    connection.close()
    return list(connection.view(name).changes(token))


@just(40, quick=3)
@given(steps, st.integers(0, 2**64 - 1))
def test_earlier_rows_plus_changes_equal_the_current_rows(steps: list[tuple[Any, ...]], seed: int) -> None:
    with TemporaryDirectory() as folder:
        world = World(Path(folder), definitions=MORE)
        played, connection = Played(world), Connection(Store(world.tables, seed))
        store = connection.store
        views = {name: connection.view(name).now() for name in VIEWS}
        live = {name: known(view.view, view.scan().to_arrow().to_pylist()) for name, view in views.items()}
        readers = {name: watch(store, store.pinned(), name, ChangesToken.parse(view.token)) for name, view in views.items()}
        for step in steps:
            before = connection.snapshot()
            if not played.play(step):
                continue
            connection.refresh()
            after, other = connection.snapshot(), Store(world.tables, seed + 1)
            for name in VIEWS:
                view, then = after.view(name), before.view(name)
                wanted = known(view.view, view.scan().to_arrow().to_pylist())
                if (change := readers[name].look(store.pinned())) is not None:
                    live[name] = taken_in(view.view, live[name], change)
                    readers[name].sent(change)
                assert live[name] == wanted
                # Another process, which has nothing but the token.
                try:
                    change = watch(other, other.pinned(), name, ChangesToken.parse(then.token)).look(other.pinned())
                except TokenGone:
                    assert step[0] in ("compact", "promote", "blind")
                    continue
                known_then = known(view.view, then.scan().to_arrow().to_pylist())
                if change is not None:
                    known_then = taken_in(view.view, known_then, change)
                    assert change.token == view.token
                assert known_then == wanted


def test_a_reader_of_changes_waits_for_them_until_the_connection_closes(tmp_path: Path) -> None:
    world = World(tmp_path)
    connection = Connection(Store(world.tables, 1))
    found: list[Changes] = []
    thread = threading.Thread(target=lambda: found.extend(connection.view("ever").changes()))
    token = connection.view("ever").now().token
    stream = connection.view("ever").changes(token)
    thread.start()
    for number in (1, 2):
        world.append(0, hit("/a", number))
        world.trigger()
        connection.refresh()
        (row,) = next(stream).rows.rows()
        assert row["n"] == number
    connection.close()
    thread.join(60)
    assert not thread.is_alive()
    assert list(stream) == []
    assert all(change.provenance.publication == 1 for change in found)


def test_a_token_before_a_compaction_has_expired_with_the_fix(tmp_path: Path) -> None:
    world = World(tmp_path)
    tokens = []
    for number in range(6):
        world.append(0, hit("/a", number))
        world.trigger()
        tokens.append(Connection(Store(world.tables, 1)).view("ever").now().token)
    assert world.compact()
    fates = []
    for token in tokens:
        try:
            pending(Connection(Store(world.tables, 1)), "ever", token)
            fates.append(True)
        except TokenGone:
            fates.append(False)
    assert fates[-1]
    with pytest.raises(TokenGone, match="scan the view again and continue from the token of that snapshot"):
        pending(Connection(Store(world.tables, 1)), "ever", tokens[fates.index(False)])


@pytest.mark.parametrize("text", ["", "x", "bnVsbA==", "WzFd", "ä", str(ChangesToken.__doc__)])
def test_an_invalid_token_is_refused(tmp_path: Path, text: str) -> None:
    world = World(tmp_path)
    with pytest.raises(TandemError, match=r"use ViewAt.token or Changes.token"):
        Connection(Store(world.tables, 1)).view("ever").changes(text)


def test_a_token_is_a_text_of_its_position(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(0, hit("/a", 1))
    world.trigger()
    token = Connection(Store(world.tables, 1)).view("ever").now().token
    assert ChangesToken.parse(token).end == world.end
    assert str(ChangesToken.parse(token)) == token


def test_a_view_that_outgrows_memory_has_no_changes(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(0, hit("/a", 1))
    world.trigger()
    view = Connection(Store(world.tables, 1, memory=10)).view("ever")
    with pytest.raises(ReadFailed, match="changes cannot be reported"):
        _ = view.now().token
    with pytest.raises(ReadFailed, match="needs more memory than the available 10 bytes"):
        next(view.changes())


def test_a_view_that_fits_again_has_changes_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(60):
        world.append(0, hit(f"/{number}", 1))
    world.trigger()
    store = Store(world.tables, 1, memory=3_000)
    connection = Connection(store)
    with pytest.raises(ReadFailed, match="needs more memory"):
        next(connection.view("per_page").changes())
    assert store.outgrown == {"per_page"}
    store.memory = MEMORY
    world.recompute(world.end)
    connection.refresh()
    assert connection.view("per_page").now().memory is not None
    assert store.outgrown == frozenset()


def test_a_token_kept_before_a_promote_to_another_meaning_has_expired(tmp_path: Path) -> None:
    """What a server has sent stays for a while, also of a view that means something else by now."""
    world = World(tmp_path)
    world.append(0, hit("/", 1))
    world.trigger()
    store = Store(world.tables, 1)
    pinned = store.pinned()
    memory = store.in_memory(pinned, pinned.view("per_page"))
    assert memory is not None
    held = memory.answers.held
    other = replace(held, batch=replace(held.batch, fingerprint="of other definitions"))
    for known in (held, other):  # as it was sent, before the promote
        token = ChangesToken.parse(str(token_of(known)))
        token = replace(token, version=token.version + 1)  # not the newest one
        store.recent.put(str(token), known)
        if known is held:
            assert watch(store, pinned, "per_page", token)._before is held
        else:
            with pytest.raises(TokenGone):
                watch(store, pinned, "per_page", token)
