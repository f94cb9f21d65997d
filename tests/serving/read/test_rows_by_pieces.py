"""Rows that are made piece by piece are those that are made at once, and so are the changes of a view that stays in its files."""

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.hash_slots import SLOTS, slots_of
from tandem.serving.changes import ViewFollower, watch
from tandem.serving.connection import Connection
from tandem.serving.memory.changes_token import ChangesToken, token_of
from tandem.serving.memory.store import InMemory, Pinned, Store
from tandem.serving.read.merged_layers import Reader, has_own_states
from tandem.serving.read.outcome import Absent, ReadFailed, Value
from tandem.serving.read.row_filter import RowsWanted
from tandem.serving.read.states import ReadCache, in_slots
from tandem.views.measures.count import count
from tandem.views.view import View, shared_columns, state_schema
from tests.samples import just
from tests.serving.memory.test_memory_equals_the_reader import MORE, VIEWS, Played, steps
from tests.serving.read.test_selection_names_whole_states import readings
from tests.serving.test_changes_are_neither_lost_nor_repeated import known, taken_in
from tests.serving.world import World, hit, position

SMALL = ReadCache(0, piece=4096)
"""A file is a piece or several."""


@just(5, quick=2)
@given(steps)
def test_rows_by_pieces_are_those_of_one(steps: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as folder:
        world = World(Path(folder), definitions=MORE, file_rows=3)
        played = Played(world)
        for step in steps:
            played.play(step)
        at_once, by_pieces = Reader(world.tables), Reader(world.tables, cache=SMALL)
        for name in VIEWS:
            for limit in (None, 2):
                expected, found = at_once.answer(name, limit=limit), by_pieces.answer(name, limit=limit)
                assert isinstance(expected, Value | Absent)
                assert type(found) is type(expected)
                assert found.rows() == expected.rows()
                assert (found.total, found.provenance) == (expected.total, expected.provenance)


def test_a_state_is_in_one_piece() -> None:
    view = View(source=readings, keys={"site": "site"}, measures={"n": count()}, name="v")
    states = pa.Table.from_pylist([{"site": str(n), "n": n} for n in range(200)], state_schema(view))
    bounds = [0, *sorted({*slots_of(states, shared_columns(view)).tolist()} - {0}), SLOTS]
    pieces = [in_slots(view, states, range(*each)) for each in pairwise(bounds)]
    assert sorted(n for piece in pieces for n in piece["n"].to_pylist()) == [*range(200)]


class OutgrownStore(Store):
    """Whose memory has room for no view but for what is above its cut."""

    def in_memory(self, pinned: Pinned, view: View) -> InMemory | None:
        return None if has_own_states(view) else super().in_memory(pinned, view)

    @property
    def outgrown(self) -> frozenset[str]:
        return frozenset(VIEWS)


@just(5, quick=2)
@given(steps, st.integers(0, 2**64 - 1))
def test_changes_of_a_view_in_files_lead_to_its_rows(steps: list[tuple[Any, ...]], seed: int) -> None:
    with TemporaryDirectory() as folder:
        world = World(Path(folder), definitions=MORE, file_rows=3)
        played, connection = Played(world), Connection(Store(world.tables, seed))
        store = OutgrownStore(world.tables, seed)
        pinned = store.pinned()
        names = [name for name in VIEWS if has_own_states(pinned.view(name))]
        readers: dict[str, ViewFollower] = {name: watch(store, pinned, name, None) for name in names}
        live = {name: known(pinned.view(name), connection.view(name).scan().to_arrow().to_pylist()) for name in names}
        for step in steps:
            tokens = {
                name: str(token_of(store.in_files(store.pinned(), store.pinned().view(name)).answers.held)) for name in names
            }
            if not played.play(step):
                continue
            connection.refresh()
            store.refresh()
            for name in names:
                view = connection.view(name).now()
                wanted = known(view.view, view.scan().to_arrow().to_pylist())
                if (change := readers[name].look(store.pinned())) is not None:
                    live[name] = taken_in(view.view, live[name], change)
                    assert change.token == view.token
                assert live[name] == wanted
                assert ChangesToken.parse(tokens[name]).release in (played.release, played.release - 1)


def test_a_publication_changes_the_rows_of_a_view_in_files(tmp_path: Path) -> None:
    """Its files may have other states than the commits that it replaces."""
    world = World(tmp_path, definitions=MORE)
    world.append(0, *(hit(f"/{number}", number) for number in range(9)))
    world.trigger()
    store = OutgrownStore(world.tables, 1)
    reader = watch(store, store.pinned(), "per_page", None)
    fold = world.fold
    world.fold = lambda start, end, reached=None: fold(start, world.end, reached)  # type: ignore[method-assign]
    world.append(0, *(hit(f"/{number}", 1) for number in range(9)))
    world.recompute(position(9))
    store.refresh()
    change = reader.look(store.pinned())
    assert change is not None
    assert sorted(row["page"] for row in change.rows.rows()) == [f"/{number}" for number in range(9)]


@pytest.mark.parametrize("output", ["append", "changes"])
def test_an_output_that_begins_with_all_rows_needs_memory(tmp_path: Path, output: str) -> None:
    world = World(tmp_path, definitions=MORE)
    world.append(0, hit("/", 1))
    world.trigger()
    store = OutgrownStore(world.tables, 1)
    with pytest.raises(ReadFailed, match="no room for them; use output update, or output changes from a token"):
        watch(store, store.pinned(), "per_page", None, RowsWanted(output=output))
