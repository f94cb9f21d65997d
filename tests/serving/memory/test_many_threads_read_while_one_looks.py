"""Many threads ask while another polls: every answer is of one position, and none steps back."""

import gc
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tandem.serving import connect
from tandem.serving.connection import Connection
from tandem.serving.memory.store import Store
from tandem.serving.read.outcome import ReadFailed
from tests.serving.world import NOON, World, hit

THREADS, COMMITS = 4, 24


def test_answers_of_many_threads_never_mix_or_step_back(tmp_path: Path) -> None:
    """Each event counts for its own page and for all of them: within a snapshot both views say the same number."""
    world = World(tmp_path)
    world.append(0, hit("/0", 1))
    world.trigger()
    # Room for one view: they drive each other out while they are read.
    connection = Connection(Store(world.tables, 1, memory=3_000))
    over, faults = threading.Event(), list[str]()

    def ask() -> None:
        counted = 0
        while not over.is_set():
            now = connection.snapshot()
            ever, pages = now.view("ever").get(), now.view("per_page").scan().rows()
            own = now.view("per_page").get(page="/0", window=NOON)
            if ever is None or own is None or ever["n"] != sum(row["n"] for row in pages) or own not in pages:
                faults.append(f"{ever} {own} {pages}")
            elif ever["n"] < counted:
                faults.append(f"{ever['n']} after {counted}")
            else:
                counted = ever["n"]

    def guarded() -> None:
        try:
            ask()
        except BaseException as error:
            faults.append(repr(error))
            raise

    threads = [threading.Thread(target=guarded) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for number in range(COMMITS):
        world.append(0, hit(f"/{number % 5}", 1), hit("/0", 2))
        world.trigger()
        if number % 6 == 5:
            world.recompute(world.end)
        connection.refresh()
    over.set()
    for thread in threads:
        thread.join()
    assert faults == []
    last = connection.view("ever").get()
    assert last is not None
    assert last["n"] == 1 + 2 * COMMITS


def test_a_connection_follows_by_itself_until_it_is_closed(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(0, hit("/0", 1))
    world.trigger()
    with connect(tmp_path, every_s=0.01) as connection:
        first = connection.snapshot()
        world.append(0, hit("/0", 1))
        world.trigger()
        while connection.snapshot().pinned is first.pinned:
            threading.Event().wait(0.01)
        assert [one.view("ever").get() for one in (first, connection)] == [
            {**row, "n": n, "bytes": n} for n, row in ((1, expected()), (2, expected()))
        ]
    before = connection.snapshot()
    world.append(0, hit("/0", 1))
    world.trigger()
    assert connection.snapshot().pinned is before.pinned


def expected() -> dict[str, object]:
    return {"window_start": None, "window_end": None, "window_state": "open", "pages": 1}


def test_the_thread_of_an_unreferenced_connection_ends(tmp_path: Path) -> None:
    World(tmp_path)
    connection = connect(tmp_path, every_s=0.01)
    view, thread = connection.view("ever"), connection._thread
    assert thread is not None
    del connection
    assert view.get() is None
    assert thread.is_alive()
    del view
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


def test_an_error_of_the_thread_is_raised_at_the_next_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    with connect(tmp_path, every_s=0.01) as connection:
        assert connection.view("ever").get() is None

        def broken(self: Store) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(Store, "refresh", broken)
        assert connection._thread is not None
        connection._thread.join(60)
        with pytest.raises(ReadFailed, match="a bug"):
            connection.view("ever")
    assert world.end is not None


READ = """
import sys
from pathlib import Path
from tandem.serving import connect
with connect(sys.argv[1]) as connection:
    view = connection.view("per_page")
    assert view.get(page="/a", window=view.scan().to_arrow()["window_start"][0].as_py()) is not None
    assert view.lookup(["/a"]).rows()
assert not {"pandas", "polars", "fastapi", "pyspark"} & set(sys.modules), set(sys.modules)
assert list(view.scan().to_pandas()["n"]) == [1]
assert view.scan().to_polars()["n"].to_list() == [1]
"""


def test_reading_imports_nothing_that_only_some_answers_need(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(0, hit("/a", 1))
    world.trigger()
    subprocess.run([sys.executable, "-c", READ, str(tmp_path)], check=True, cwd=Path(__file__).parents[3])
