"""What belongs to the whole process stays as it is for other threads, whatever one of them does."""

import csv
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event

import pytest

from tandem.infra.folders import ROOT
from tandem.views.project import project
from tandem.views.source.formats.csv import rows_with_quotes

THREADS = 8
DEFINITIONS = """
import builtins
from datetime import datetime
from tandem import Event, Source, View, count

print("loading")
builtins.entered.set()
builtins.go_on.wait(30)


class Sale(Event):
    at: datetime


sales = Source(topic="sales", event=Sale, event_time="at")
per_shop = View(sales, measures={"n": count()})
SOURCES = (sales,)
VIEWS = (per_shop,)
"""


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Event, Event]]:
    """Set where a project is being loaded, and what lets it go on."""
    import builtins  # noqa: PLC0415  where the project's code finds them

    entered, go_on = Event(), Event()
    monkeypatch.setattr(builtins, "entered", entered, raising=False)
    monkeypatch.setattr(builtins, "go_on", go_on, raising=False)
    yield entered, go_on
    go_on.set()


def test_other_threads_print_where_they_did_while_a_project_is_loaded(
    tmp_path: Path, loading: tuple[Event, Event], capsys: pytest.CaptureFixture[str]
) -> None:
    entered, go_on = loading
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text(DEFINITIONS)
    with ThreadPoolExecutor(1) as other:
        loaded = other.submit(project.load, tmp_path)
        assert entered.wait(30)
        sys.stdout.write("an answer\n")
        sys.stdout.flush()
        go_on.set()
        assert set(loaded.result().views) == {"per_shop"}
    sys.stdout.write("another\n")
    assert capsys.readouterr() == ("an answer\nanother\n", "loading\n")


def test_equal_files_are_one_project_whoever_loads_them_first(loading: tuple[Event, Event]) -> None:
    loading[1].set()
    files = {"tandem.toml": b"", "definitions.py": DEFINITIONS.encode()}
    began = Barrier(THREADS)

    def load() -> project.Project:
        began.wait()
        return project.load_files(files)

    with ThreadPoolExecutor(THREADS) as threads:
        found = [one.result() for one in [threads.submit(load) for _ in range(THREADS)]]
    assert {id(one) for one in found} == {id(found[0])}


def test_the_engine_leaves_the_filters_of_warnings_alone() -> None:
    """In a process of its own, whose filters nobody sets back."""
    code = """
import sys, threading, warnings
import pyarrow as pa
from tandem.views.sql import engine

sys.setswitchinterval(1e-5)
began, rows = threading.Barrier(8), pa.table({"x": [1, 2]})

def ask():
    engine.query("SELECT sum(x) AS x FROM lent", {"lent": rows})
    began.wait()
    filters = list(warnings.filters)
    began.wait()
    for _ in range(100):
        engine.query("SELECT sum(x) AS x FROM lent", {"lent": rows})
        assert warnings.filters == filters

failed = []
threading.excepthook = lambda told: failed.append(told.exc_value)
threads = [threading.Thread(target=ask) for _ in range(8)]
for one in threads: one.start()
for one in threads: one.join()
sys.exit(len(failed))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_no_row_of_csv_does_not_hang_on_other_threads() -> None:
    value, began = f'"a";{"b" * 200_000}', Barrier(THREADS)
    limit = csv.field_size_limit()

    def read() -> int:
        began.wait()
        return sum(len(rows_with_quotes(value, ";")[0][1]) for _ in range(100))

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(THREADS) as threads:
            assert {one.result() for one in [threads.submit(read) for _ in range(THREADS)]} == {20_000_000}
    finally:
        sys.setswitchinterval(switch)
    assert csv.field_size_limit() == limit
