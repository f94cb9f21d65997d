"""The rows that match a filter, plus the changes of that filter, equal the rows that match it later."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.serving.changes import Changes
from tandem.serving.connection import Connection
from tandem.serving.memory.changes_token import TokenGone
from tandem.serving.memory.store import Store
from tandem.serving.read.selection import BadSelection
from tests.samples import just
from tests.serving.memory.test_memory_equals_the_reader import MORE, Played, steps
from tests.serving.test_changes_are_neither_lost_nor_repeated import Known, known, taken_in
from tests.serving.world import World, hit

Row = dict[str, Any]
FILTERS: dict[str, tuple[dict[str, object], str | None, Callable[[Row], bool]]] = {
    "per_page": ({}, "n % 2 = 1 OR price > 1e30", lambda row: row["n"] % 2 == 1),
    "ever": ({}, "n BETWEEN 2 AND 4", lambda row: 2 <= row["n"] <= 4),
    "inverse": ({"odd": True}, "12 // (n - 2) > 5", lambda row: row["odd"] is True and row["n"] in (3, 4)),
    "visits": ({"odd": False}, None, lambda row: row["odd"] is False),
    "hops": ({}, "page IS NULL OR n = 1", lambda row: row["page"] is None or row["n"] == 1),
    "pairs": ({}, "n < 2", lambda row: row["n"] < 2),
}


def changes_of(connection: Connection, name: str, token: str) -> list[Changes]:
    """The changes of the view's filter from a token on, without waiting for more."""
    connection.close()
    keys, where, _ = FILTERS[name]
    return list(connection.view(name).changes(token, keys=keys, where=where))


@just(3, quick=2)
@given(steps, st.integers(0, 2**64 - 1))
def test_rows_that_matched_plus_changes_equal_the_rows_that_match(steps: list[tuple[Any, ...]], seed: int) -> None:
    with TemporaryDirectory() as folder:
        world = World(Path(folder), definitions=MORE)
        played, connection = Played(world), Connection(Store(world.tables, seed))

        def matching(name: str) -> Known:
            view = connection.view(name).now()
            return known(view.view, [row for row in view.scan().to_arrow().to_pylist() if FILTERS[name][2](row)])

        live = {name: matching(name) for name in FILTERS}
        streams = {
            name: connection.view(name).changes(connection.view(name).now().token, keys=keys, where=where)
            for name, (keys, where, _) in FILTERS.items()
        }
        for step in steps:
            tokens = {name: connection.view(name).now().token for name in FILTERS}
            if not played.play(step):
                continue
            connection.refresh()
            for name in FILTERS:
                view, earlier, wanted = connection.view(name).now().view, live[name], matching(name)
                if wanted != earlier:
                    live[name] = taken_in(view, earlier, next(streams[name]))
                assert live[name] == wanted
                # Another process, which has nothing but the token and the filter.
                try:
                    sent = changes_of(Connection(Store(world.tables, seed + 1)), name, tokens[name])
                except TokenGone:
                    assert step[0] in ("compact", "promote", "blind")
                    continue
                for change in sent:
                    earlier = taken_in(view, earlier, change)
                assert earlier == wanted
                assert len(sent) <= 1


def test_a_row_that_leaves_the_filter_is_gone_and_one_that_enters_it_is_new(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(0, hit("/a", 1), hit("/b", 1), hit("/b", 1))
    world.trigger()
    connection = Connection(Store(world.tables, 1))
    token = connection.view("per_page").now().token
    world.append(0, hit("/a", 1), hit("/b", 1))
    world.trigger()
    (change,) = _one_change(world, token, "n = 2")
    assert [(row["page"], row["n"]) for row in change.rows.rows()] == [("/a", 2)]
    assert change.gone["page"].to_pylist() == ["/b"]
    assert _one_change(world, token, "n > 9") == []


def _one_change(world: World, token: str, where: str) -> list[Changes]:
    connection = Connection(Store(world.tables, 1))
    connection.close()
    return list(connection.view("per_page").changes(token, where=where))


@pytest.mark.parametrize(
    ("where", "refusal"),
    [
        ("hits > 1", r"^where 'hits > 1' names a field 'hits' that a row of view 'per_page' does not have; fields: .*page"),
        ("window_state = 'final'", "names a field 'window_state'"),
        ("n", "^where 'n' has the type .*; expected a condition"),
        ("n >", "^where 'n >' "),
        ("(SELECT true)", "is refused: a subquery reads tables"),
        ("random() > 0.5", "is refused"),
    ],
)
def test_an_invalid_condition_is_refused(tmp_path: Path, where: str, refusal: str) -> None:
    world = World(tmp_path)
    world.append(0, hit("/a", 1))
    world.trigger()
    with pytest.raises(BadSelection, match=refusal) as refused:
        Connection(Store(world.tables, 1)).view("per_page").changes(where=where)
    assert "\n" not in str(refused.value)
