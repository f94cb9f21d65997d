"""What a reader of each output folds from its updates is the query at its token: envelopes, and rows of final windows."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.serving.changes import Changes, watch
from tandem.serving.connection import Connection
from tandem.serving.memory.changes_token import ChangesToken, TokenGone
from tandem.serving.memory.differences import identity
from tandem.serving.memory.layer import MemoryLayout
from tandem.serving.memory.store import Store
from tandem.serving.read.outcome import Absent, ReadFailed, Value
from tandem.serving.read.row_filter import RowsWanted
from tandem.serving.read.selection import BadSelection
from tandem.views.view import View
from tests.samples import just
from tests.serving.memory.test_memory_equals_the_reader import MORE, VIEWS, Played, steps
from tests.serving.world import World, hit

Row = dict[str, Any]
Rows = dict[tuple[Any, ...], Row]
FINAL = tuple(name for name in VIEWS if name not in ("ever", "inverse", "overall", "newest", "newest_versions"))


def by_place(view: View, rows: list[Row]) -> Rows:
    """Rows without labels by what tells them apart."""
    place = identity(MemoryLayout(view, 0))
    placed = {tuple(row[name] for name in place): {n: v for n, v in row.items() if n != "window_state"} for row in rows}
    assert len(placed) == len(rows)
    return placed


def arrow_rows(answer: Value | Absent) -> list[Row]:
    rows: list[Row] = answer.to_arrow().to_pylist()
    return rows


def fold_envelopes(view: View, rows: Rows, update: Changes) -> Rows:
    after = dict(rows)
    for change in update.envelopes():
        ((place, row),) = by_place(view, [change["after"] or change["before"]]).items()
        before = None if change["before"] is None else by_place(view, [change["before"]])[place]
        assert before == rows.get(place), "what the reader had"
        assert change["op"] == ("d" if change["after"] is None else "u" if before else "r" if update.first else "c")
        after[place] = row
        if change["after"] is None:
            del after[place]
    return after


def fold_final(view: View, rows: Rows, update: Changes) -> Rows:
    assert not isinstance(update.late, int)
    assert {row["window_state"] for row in arrow_rows(update.rows)} <= {"final"}
    new, late = by_place(view, arrow_rows(update.rows)), by_place(view, arrow_rows(update.late))
    gone = {tuple(row.values()) for row in update.gone.to_pylist()}
    assert not new.keys() & rows.keys(), "a row is sent once"
    assert all(rows.get(place) != row for place, row in late.items()), "sent again"
    assert gone <= rows.keys()
    return {place: row for place, row in {**rows, **new, **late}.items() if place not in gone}


def everything(view: View, answer: Value | Absent) -> Rows:
    return by_place(view, answer.rows())


def of_final_windows(view: View, answer: Value | Absent) -> Rows:
    return by_place(view, [row for row in arrow_rows(answer) if row["window_state"] == "final"])


OUTPUTS: dict[str, tuple[tuple[str, ...], Callable[..., Rows], Callable[..., Rows]]] = {
    "changes": (VIEWS, fold_envelopes, everything),
    "append": (FINAL, fold_final, of_final_windows),
}


@pytest.mark.each_run("append")
@pytest.mark.parametrize("output", OUTPUTS)
@just(16, quick=2)
@given(steps, st.integers(0, 2**64 - 1))
def test_updates_fold_to_the_query_at_their_token(output: str, steps: list[tuple[Any, ...]], seed: int) -> None:
    names, fold, queried = OUTPUTS[output]
    wanted = RowsWanted(output=output)
    with TemporaryDirectory() as folder:
        world = World(Path(folder), definitions=MORE)
        played, connection = Played(world), Connection(Store(world.tables, seed))
        store = connection.store
        readers = {name: watch(store, store.pinned(), name, None, wanted) for name in names}
        rows: dict[str, Rows] = {name: {} for name in names}
        tokens: dict[str, str] = {}
        stepped_back = False
        for step in [("look",), *steps]:
            if step[0] != "look" and not played.play(step):
                continue
            before = connection.snapshot()
            connection.refresh()
            after = connection.snapshot()
            other = Store(world.tables, seed + 1)
            for name in names:
                view, then = after.view(name), rows[name]
                answer, earlier = view.scan(), before.view(name).scan()
                marks = [each.provenance.watermark for each in (earlier, answer)]
                stepped_back |= marks[0] is not None and (marks[1] is None or marks[1] < marks[0])
                update = readers[name].look(store.pinned(), always=True)
                if update is not None:
                    rows[name] = fold(view.view, then, update)
                    readers[name].sent(update)
                # The reader of final rows has those of the greatest watermark that it saw.
                if not stepped_back or output != "append":
                    assert rows[name] == queried(view.view, answer)
                # Another process, which has nothing but the token.
                if name in tokens:
                    try:
                        again = watch(other, other.pinned(), name, ChangesToken.parse(tokens[name]), wanted)
                    except TokenGone:
                        assert step[0] in ("compact", "promote", "blind")
                    else:
                        found = again.look(other.pinned())
                        assert rows[name] == (then if found is None else fold(view.view, then, found))
                if update is not None:
                    tokens[name] = update.token


def test_rows_of_final_windows_come_once_and_late_ones_are_sent_or_counted(tmp_path: Path) -> None:
    world = World(tmp_path, definitions=MORE)
    store = Store(world.tables, 1)
    readers = [watch(store, store.pinned(), "minutes", None, RowsWanted(output="append", late=late)) for late in ("send", "drop")]

    def after(*minutes: tuple[int, int]) -> tuple[list[int], list[int], list[int], object]:
        """The rows and late rows of a reader after events of these partitions and minutes, as counts; those of one that drops."""
        for partition, minute in minutes:
            world.append(partition, hit("/a", 1, minute=minute))
        world.trigger()
        store.refresh()
        sent, dropped = (reader.look(store.pinned()) for reader in readers)
        assert sent is not None
        assert dropped is not None
        assert not isinstance(sent.late, int)
        assert (sent.gone.num_rows, dropped.gone.num_rows) == (0, 0)
        rows, late, others = ([row["n"] for row in answer.rows()] for answer in (sent.rows, sent.late, dropped.rows))
        return rows, late, others, dropped.late

    assert after((0, 0), (0, 20), (1, 20)) == ([1], [], [1], 0)
    assert after((0, 0)) == ([], [2], [], 1)
    # Minute 20 is final now; the row of minute 0 is not sent again.
    assert after((0, 45), (1, 45)) == ([2], [], [2], 0)


@pytest.mark.parametrize(
    ("name", "output", "late", "refusal"),
    [
        ("ever", "append", "send", "rows of view 'ever' are of all time; use update or changes"),
        ("minutes", "complete", "send", "unknown output 'complete'; write one of update, append, changes"),
        ("minutes", "append", "keep", "late=keep is unknown; write one of send, drop"),
        ("minutes", "update", "drop", "late=drop is for the output append; output 'update' has no late rows"),
    ],
)
def test_an_output_that_cannot_be_is_refused(tmp_path: Path, name: str, output: str, late: str, refusal: str) -> None:
    world = World(tmp_path, definitions=MORE)
    world.append(0, hit("/a", 1))
    world.trigger()
    with pytest.raises(BadSelection) as refused:
        Connection(Store(world.tables, 1)).view(name).changes(output=output, late=late)
    assert refusal in str(refused.value)


def test_final_rows_continue_only_from_a_token_of_theirs(tmp_path: Path) -> None:
    world = World(tmp_path, definitions=MORE)
    world.append(0, hit("/a", 1))
    world.trigger()
    connection = Connection(Store(world.tables, 1))
    with pytest.raises(BadSelection, match="output append continues from a token of this output"):
        connection.view("minutes").changes(connection.view("minutes").now().token, output="append")


@pytest.mark.parametrize("output", OUTPUTS)
def test_the_first_update_comes_without_rows_too(tmp_path: Path, output: str) -> None:
    world = World(tmp_path, definitions=MORE)
    world.append(0, hit("/a", 1))
    world.trigger()
    store = Store(world.tables, 1)
    reader = watch(store, store.pinned(), "minutes", None, RowsWanted(where="n > 9", output=output))
    first = reader.look(store.pinned())
    assert first is not None
    assert (first.first, first.empty) == (True, True)
    assert reader.look(store.pinned()) is None


def test_an_update_of_final_rows_has_no_envelopes(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(0, hit("/a", 1, minute=-300), hit("/a", 3))
    world.trigger()
    store = Store(world.tables, 1)
    pinned = store.pinned()
    update = watch(store, pinned, "per_page", None, RowsWanted(output="append")).look(pinned)
    assert update is not None
    with pytest.raises(BadSelection, match="use rows, late and gone, or output changes"):
        update.envelopes()


@pytest.mark.slow
def test_final_rows_end_when_their_view_outgrows_memory(tmp_path: Path) -> None:
    """Only what is above the cut is in memory then: rows that are not there have not left the view."""
    world = World(tmp_path, definitions=MORE)
    for partition in (0, 1):
        world.append(partition, *(hit(f"/{number}", number, minute=-900) for number in range(9)), hit("/", 1, minute=-120))
    world.trigger()
    world.recompute(world.end)
    store = Store(world.tables, 1)
    reader = watch(store, store.pinned(), "per_page", None, RowsWanted(output="append"))
    first = reader.look(store.pinned())
    assert first is not None
    assert first.rows.total == 9
    store.memory = 1
    world.append(0, hit("/", 2, minute=-119))
    world.trigger()
    world.recompute(world.end)
    store.refresh()
    with pytest.raises(ReadFailed, match="output append needs all rows of view 'per_page' in memory"):
        reader.look(store.pinned())
