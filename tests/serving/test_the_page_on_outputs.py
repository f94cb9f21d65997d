"""Every number of docs/outputs.md is computed, and equal to that of the program that the page names."""

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.infra.folders import ROOT
from tandem.serving.changes import Changes, watch
from tandem.serving.connection import Connection
from tandem.serving.memory.cached_view import Recent
from tandem.serving.memory.store import Store
from tandem.serving.read.row_filter import RowsWanted
from tests.serving.world import World

PAGE = (ROOT / "docs" / "outputs.md").read_text("utf-8")
WINDOWS = ("12:00", "12:02", "12:04", "12:06")
FIGURES = {
    "2-5": [[14], [18], [4], [12]],
    "2-6": [[5, 14], [7, 10, 18], [4], [3, 11, 12]],
    "2-8": [[5, 14], [18], [4], [12]],
    "2-10": [[5], [18], [4], [12]],
    "2-11": [[14], [], [], []],
}
"""The panes of each window in takidau/streamingbook, BeamModel.java, without those that repeat a sum; of 2-11 the LATE ones."""


def block(name: str) -> str:
    (text,) = re.findall(rf"^```python {name}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def time(text: str) -> datetime:
    return datetime.fromisoformat(f"2015-08-31T{text}+00:00")


SCORES = [
    (int(score), time(at), time(appended))
    for score, at, appended in re.findall(r"^\| (\d) \| ([\d:]{8}) \| ([\d:]{8}) \|$", PAGE, re.MULTILINE)
]


def table() -> dict[str, tuple[str, list[list[int]]]]:
    """The page's rows of panes: by reader the figure and the sums of each window."""
    lines = re.findall(r"^\| (`?[a-z][^|]*) \| ([^|]*) \|" + r" ?([\d, ]*) \|" * 4 + "$", PAGE, re.MULTILINE)
    return {
        reader: (figure.partition(",")[0], [[*map(int, re.findall(r"\d+", cell))] for cell in cells])
        for reader, figure, *cells in lines
    }


class Panes:
    """What a reader has received of each window."""

    def __init__(self, store: Store, options: dict[str, Any]) -> None:
        self.store, self.reader = store, watch(store, store.pinned(), "sums", None, RowsWanted(**options))
        self.updates: list[tuple[datetime, Changes]] = []
        first = self.reader.look(store.pinned())
        assert first is None or (first.first and not first.size), "there is no row yet"

    def look(self, at: datetime) -> None:
        if (update := self.reader.look(self.store.pinned())) is not None:
            self.updates.append((at, update))
            self.reader.sent(update)

    def sums(self, part: str = "rows") -> list[list[int]]:
        rows = [row for _, update in self.updates for row in getattr(update, part).rows()]
        return [[int(row["sum"]) for row in rows if row["window_start"][11:16] == start] for start in WINDOWS]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The example, a commit for each score, as each reader of the page follows it; and the answers at its end."""
    readers: dict[str, Any] = {}
    exec(block("readers"), readers)  # the page's own text
    made, seconds = World(tmp_path_factory.mktemp("scores"), definitions=block("definitions"), source="scores"), [0.0]
    store = Store(made.tables, 1, recent=Recent(clock=lambda: seconds[0]))
    panes = {name: Panes(store, readers[name]) for name in ("each_score", "every", "final")}
    for start in WINDOWS:
        where = readers["first"].replace("12:00:00", f"{start}:00")
        panes[f"delay {start}"] = Panes(store, {**readers["delay"], "where": where})
    panes["delay of all"] = Panes(store, {name: value for name, value in readers["delay"].items() if name != "where"})
    for score, at, appended in SCORES:
        _append(made, "X", score, at, appended)
        store.refresh()
        for reader in panes.values():
            reader.look(appended)
    at_the_end = {name: Connection(store).view(name).scan().rows() for name in ("everything", "sums")}
    for passed in range(121):
        seconds[0] = passed
        for reader in panes.values():
            reader.look(SCORES[-1][2] + timedelta(seconds=passed))
    _append(made, "Y", 0, time("12:08:30"), time("12:11:30"))
    store.refresh()
    for reader in panes.values():
        reader.look(time("12:11:30"))

    return {**panes, **at_the_end}


def _append(made: World, team: str, score: int, at: datetime, appended: datetime) -> None:
    made.appended = appended - timedelta(seconds=len(made.log[0]))
    made.append(0, json.dumps({"at": at.isoformat(), "team": team, "score": score}).encode())
    made.trigger()


def test_the_page_has_the_example_and_the_figures() -> None:
    assert [score for score, _, _ in SCORES] == [5, 7, 3, 4, 8, 3, 9, 8, 1]
    assert {figure: sums for figure, sums in table().values() if figure in FIGURES} == FIGURES


def test_each_reader_gets_the_panes_of_its_figure(played: dict[str, Any]) -> None:
    shown = {reader: sums for reader, (_, sums) in table().items()}
    assert [[int(row["sum"])] for row in played["sums"]] == shown["a query at the end"]
    assert [int(row["sum"]) for row in played["everything"]] == [48]
    assert played["each_score"].sums() == shown["`each_score`"]
    assert played["every"].sums() == shown["`every`"]
    assert [played[f"delay {start}"].sums()[n] for n, start in enumerate(WINDOWS)] == shown["`delay`, one reader for each window"]
    assert played["final"].sums() == shown["`final`, `rows`"]
    assert played["final"].sums("late") == shown["`final`, `late`"]


def test_steps_come_when_the_page_says(played: dict[str, Any]) -> None:
    (first, *_) = [update for _, update in played["delay of all"].updates]
    assert [int(row["sum"]) for row in first.rows.rows()] == [5, 10, 4]
    assert played["every"].updates[-1][0] == time("12:10:00")


def test_retractions_and_discarded_panes_are_before_and_after(played: dict[str, Any]) -> None:
    steps = [change for _, update in played["each_score"].updates for change in update.envelopes()]
    sums = [
        [0 if row is None else int(row["sum"]) for row in (change["before"], change["after"])]
        for change in steps
        if change["after"]["window_start"][11:16] == "12:00"
    ]
    assert sums == [[0, 5], [5, 14]]
    assert [after - before for before, after in sums] == [5, 9]


def test_the_program_of_the_page_is_python(tmp_path: Path) -> None:
    compile(block("follow"), str(tmp_path), "exec")
    assert "changes(**every)" in block("follow")
