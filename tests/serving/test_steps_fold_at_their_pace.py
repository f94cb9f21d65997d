"""A reader whose steps have several commits: it has the query at its token, and gets each step when that is due."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.log.positions import distance
from tandem.serving.changes import Changes, ViewFollower, watch
from tandem.serving.connection import Connection
from tandem.serving.memory.cached_view import CachedView, Recent
from tandem.serving.memory.changes_token import ChangesToken, token_of
from tandem.serving.memory.pace import LONGEST_S, When, parse_when
from tandem.serving.memory.store import Store
from tandem.serving.read.row_filter import RowsWanted
from tandem.serving.read.selection import BadSelection
from tests.samples import just
from tests.serving.memory.test_memory_equals_the_reader import MORE, Played, steps
from tests.serving.test_outputs_fold_to_the_query import OUTPUTS, Rows, arrow_rows, by_place
from tests.serving.world import APPENDED, World, hit

WATCHED = ("per_page", "pairs", "minutes")
SPAN = 10


def fold_rows(view: Any, rows: Rows, update: Changes) -> Rows:
    changed, gone = by_place(view, update.rows.to_arrow().to_pylist()), {tuple(row.values()) for row in update.gone.to_pylist()}
    assert all(rows.get(place) != row for place, row in changed.items()), "sent again"
    return {place: row for place, row in {**rows, **changed}.items() if place not in gone}


FOLDS: dict[str, tuple[Callable[..., Rows], Callable[..., Rows]]] = {
    **{name: (fold, queried) for name, (_, fold, queried) in OUTPUTS.items()},
    "update": (fold_rows, lambda view, answer: by_place(view, arrow_rows(answer))),
}


@dataclass
class Model:
    """What a reader has to have: the rows of one of the snapshots that it saw, each with the log's time when it came."""

    when: str
    seen: list[tuple[float, CachedView, Rows]] = field(default_factory=list)
    at: int = 0
    due: float | None = None

    def rows(self, now: float) -> Rows:
        """The rows that it has after a look at this time of the log."""
        unit, _, amount = self.when.partition(":")
        newest = len(self.seen) - 1
        if unit == "count":
            self.at = newest if distance(self.seen[self.at][1].end, self.seen[-1][1].end) >= int(amount) else self.at
        elif unit == "every":
            self.at = max([n for n, (came, _, _) in enumerate(self.seen) if came < now // SPAN * SPAN], default=0)
        elif self.due is not None and now >= self.due:
            self.at = max(n for n, (came, _, _) in enumerate(self.seen) if came < self.due or n == self.at)
            self.due = None
        if unit == "delay" and self.due is None:
            if self.seen[self.at][2] == self.seen[-1][2]:
                self.at = newest
            else:
                self.due = now + SPAN
        return self.seen[self.at][2]


@pytest.mark.each_run("count:3")
@pytest.mark.parametrize("when", ["every:10s", "delay:10s", "count:3"])
@just(12, quick=2)
@given(
    steps,
    st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), min_size=12, max_size=12),
    st.sampled_from(sorted(FOLDS)),
    st.integers(0, 2**64 - 1),
)
def test_steps_of_several_commits_fold_to_the_query_at_their_token(
    when: str, steps: list[tuple[Any, ...]], gaps: list[tuple[int, int]], output: str, seed: int
) -> None:
    fold, queried = FOLDS[output]
    seconds = 0.0
    with TemporaryDirectory() as folder:
        world = World(Path(folder), definitions=MORE, appended=APPENDED)
        played = Played(world)
        store = Store(world.tables, seed, recent=Recent(clock=lambda: seconds))
        connection = Connection(store)
        wanted = RowsWanted(output=output, when=when)
        world.append(0, hit("/a", 1))
        world.trigger()
        connection.refresh()
        readers = {name: watch(store, store.pinned(), name, None, wanted) for name in WATCHED}
        rows: dict[str, Rows] = {}
        models = {name: Model(when) for name in WATCHED}
        log, heard = 0.0, 0.0

        def look(name: str, *, came: bool) -> None:
            view = connection.snapshot().view(name)
            assert view.memory is not None
            held, now = view.memory.answers.held, log + seconds - heard
            answer = queried(view.view, view.scan())
            if came:
                models[name].seen.append((now, held, answer))
            first = name not in rows
            then = rows.setdefault(name, {} if output != "update" else answer)
            update = readers[name].look(store.pinned())
            if update is not None:
                rows[name] = fold(view.view, then, update)
                readers[name].sent(update)
                named = str(replace(ChangesToken.parse(update.token), watermark=None))
                (at_token,) = [known for _, one, known in models[name].seen if str(token_of(one)) == named][-1:]
                assert rows[name] == at_token
            expected = models[name].rows(now)
            assert rows[name] == (answer if first else expected)
            wait_s = readers[name].wait_s
            if rows[name] != answer and not when.startswith("count"):
                assert wait_s is not None
                assert 0 < wait_s <= SPAN

        back = False
        for step, (appends, idle) in zip([("look",), *steps], gaps, strict=False):
            world.appended += timedelta(seconds=appends)
            if step[0] != "look" and not played.play(step):
                continue
            before = connection.snapshot().view("minutes").scan().provenance.watermark
            connection.refresh()
            answer = connection.snapshot().view("minutes").scan()
            after = answer.provenance.watermark
            back |= before is not None and (after is None or after < before)
            if back and output == "append":
                return  # a reader of final rows has those of the greatest watermark that it saw
            newest = answer.provenance.newest
            if newest is not None and newest.timestamp() > log + seconds - heard:
                log, heard = newest.timestamp(), seconds
            for name in WATCHED:
                look(name, came=True)
            seconds += idle
            for name in WATCHED:
                look(name, came=False)


def played_at(tmp_path: Path, when: str, *, simple: bool = False) -> tuple[World, Store, ViewFollower, list[float]]:
    """A view with one event of 11:50:00, a reader of its changes, and what the process's clock shows."""
    world, seconds = World(tmp_path), [0.0]
    store = Store(world.tables, 1, recent=Recent(clock=lambda: seconds[0]))
    world.append(0, hit("/a", 1))
    world.trigger()
    store.refresh()
    return world, store, watch(store, store.pinned(), "ever", None, RowsWanted(when=when, simple=simple)), seconds


def after(world: World, store: Store, reader: ViewFollower, seconds: int) -> list[int]:
    """The counts that a reader gets after one more event, appended this many seconds after the first."""
    world.appended = APPENDED + timedelta(seconds=seconds - len(world.log[0]))
    world.append(0, hit("/a", 1))
    world.trigger()
    store.refresh()
    return counts(store, reader)


def counts(store: Store, reader: ViewFollower) -> list[int]:
    update = reader.look(store.pinned())
    return [] if update is None else [row["n"] for row in update.rows.rows()]


def test_every_sends_what_was_appended_before_a_multiple(tmp_path: Path) -> None:
    world, store, reader, clock = played_at(tmp_path, "every:10s")
    assert [after(world, store, reader, at) for at in (3, 9, 10, 19, 45, 46)] == [[], [], [3], [], [5], []]
    assert reader.wait_s == 4
    clock[0] += 3
    assert counts(store, reader) == []
    clock[0] += 1
    assert counts(store, reader) == [7]
    assert reader.wait_s is None


def test_delay_sends_that_long_after_the_first_change_and_loses_none(tmp_path: Path) -> None:
    world, store, reader, clock = played_at(tmp_path, "delay:10s")
    assert [after(world, store, reader, at) for at in (3, 9, 12, 13)] == [[], [], [], [4]]
    assert reader.wait_s == 10, "for the row that came with the step"
    clock[0] += 10
    assert counts(store, reader) == [5]
    assert reader.wait_s is None


def test_count_sends_after_that_many_records_and_to_a_stranger_within_a_minute(tmp_path: Path) -> None:
    world, store, reader, clock = played_at(tmp_path, "count:3", simple=True)
    assert [after(world, store, reader, at) for at in (1, 2, 3, 4, 5)] == [[], [], [4], [], []]
    assert reader.wait_s == LONGEST_S - 1
    clock[0] += LONGEST_S
    assert counts(store, reader) == [6]


@pytest.mark.parametrize(
    "text", ["", "commits", "commit:1", "every", "every:0s", "delay:x", "count:0", "count:-1", "count:1234567890"]
)
def test_a_pace_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(BadSelection, match=r"write commit, every:10s, delay:10s or count:100|invalid duration"):
        parse_when(text)


def test_a_stranger_waits_a_minute_at_most() -> None:
    assert parse_when("every:2h") == When("every", 7200)
    with pytest.raises(BadSelection, match=r"when=every:2h waits for too long.* write every:60s"):
        parse_when("every:2h", bounded=True)
    assert parse_when("delay:60s", bounded=True).amount == LONGEST_S


def test_a_reader_in_a_program_gets_the_last_rows_of_an_idle_log(tmp_path: Path) -> None:
    world = World(tmp_path)
    connection = Connection(Store(world.tables, 1)).follow(0.01)
    updates = connection.view("ever").changes(connection.view("ever").now().token, when="delay:1s")
    threading.Timer(60, connection.close).start()
    world.append(0, hit("/a", 1))
    world.trigger()
    assert [row["n"] for row in next(updates).rows.rows()] == [1]
    connection.close()
