"""Pages of a view that memory has no room for are all of its rows, also where they cross chunks and commits land between them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.ledger.log.positions import LOG_START
from tandem.serving.http.answer_cache import cache, chunks
from tandem.views.exactness import MARK
from tests.serving import oracle
from tests.serving.http.served import Asker, Served
from tests.serving.world import DEFINITIONS, World, copied, hit, position

CHUNK = 7
IDENTIFIED = DEFINITIONS.replace('event_time="moment"', 'event_time="moment", identity=("bytes",)')
ESTIMATED = DEFINITIONS.replace('"mean": mean("bytes")}', '"mean": mean("bytes"), "kinds": approx_count_distinct("bytes")}')
PAGES = [f"/{n:02}" for n in range(20)]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cache, chunks):
        monkeypatch.setattr(module, "CHUNK_ROWS", CHUNK)


def twenty_pages(folder: Path, definitions: str) -> World:
    """Twenty pages below the cut; the tail has the last one, too."""
    world = World(folder, definitions=definitions, file_rows=3)
    world.append(0, *(hit(page, n + 1) for n, page in enumerate(PAGES)))
    world.trigger()
    world.recompute(position(20))
    world.append(1, hit(PAGES[-1], 100))
    world.trigger()
    return world


@copied
def identified(folder: Path) -> World:
    """Events that have an identity: rows which the tail touches are marked."""
    return twenty_pages(folder, IDENTIFIED)


def without_memory(world: World) -> Served:
    """A server that reads all views from their files, in several pieces."""
    served = Served(world)
    store = served.server.lane.cache.store
    store.memory, store._files.cache.piece = 1, 4096
    return served


def pages(asker: Asker, **asked: Any) -> Iterator[dict[str, Any]]:
    """The pages of `per_page`, each with its entity tag."""
    cursor: dict[str, str] = {}
    while True:
        answer = asker.get("/views/per_page/rows", params={**asked, **cursor})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        yield page | {"tag": answer.headers["etag"]}
        if page["next"] is None:
            return
        cursor = {"cursor": page["next"]}


@pytest.mark.parametrize(("limit", "descending", "growing"), [(3, False, False), (3, True, True), (100, False, True)])
def test_pages_have_each_row_once(tmp_path: Path, *, limit: int, descending: bool, growing: bool) -> None:
    world, rows = identified(tmp_path), list[dict[str, Any]]()
    expected = oracle.per_page(world.values(LOG_START, world.end))
    if descending:
        expected.sort(key=lambda row: -row["bytes"])
    served = without_memory(world)
    with served.asker() as asker:
        for page in pages(asker, limit=limit, **({"order": "-bytes"} if descending else {})):
            assert page["total"] == len(PAGES)
            rows += page["rows"]
            if growing:
                world.append(0, hit(PAGES[0], 1000 + len(rows)))
                world.trigger()
                served.server.lane.cache.store.refresh()
    assert [row["page"] for row in rows if MARK in row] == [PAGES[-1]]
    assert oracle.unlabelled([{name: value for name, value in row.items() if name != MARK} for row in rows]) == expected
    assert max(answer.table.num_rows for answer in served.server.lane.cache._held.values()) == CHUNK


@pytest.mark.parametrize("order", [{}, {"order": "kinds"}], ids=["by window and keys", "by an estimate"])
def test_pages_with_estimates_have_each_row_once(tmp_path: Path, order: dict[str, str]) -> None:
    with without_memory(twenty_pages(tmp_path, ESTIMATED)).asker() as asker:
        every = [*pages(asker, limit=5, **order)]
    assert sorted(row["page"] for page in every for row in page["rows"]) == PAGES
    assert len({page["tag"] for page in every}) == len(every)


def test_a_look_up_of_more_rows_than_a_chunk_has_all_of_them(tmp_path: Path) -> None:
    with without_memory(identified(tmp_path)).asker() as asker:
        found = asker.post("/views/per_page/lookup", json={"keys": [{"page": page} for page in PAGES]}).json()
    assert [row["page"] for row in found["rows"]] == PAGES
