"""`explain` shows how a view is computed and what its tables hold, without Spark, also if they are empty."""

import json
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.views.view import bind, state_schema
from tests.serving.world import World, hit, position

ORDERED = """
from datetime import datetime, timedelta

from tandem import Event, Source, View, count, derived, approx_count_distinct, count_window, hopping, total


class Hit(Event):
    id: str
    at: datetime
    page: str
    bytes: int


hits = Source(
    topic="hits", event=Hit, event_time="at", identity=("id",), dedup_window=timedelta(minutes=5), clock_skew=timedelta(minutes=7)
)
hops = View(
    hits,
    where="bytes > 0",
    window=hopping(timedelta(minutes=3), every=timedelta(minutes=2)),
    measures={"n": count(filter="page = '/'"), "sum": total("bytes"), "per": derived("sum / n"),
        "pages": approx_count_distinct("page")},
)
hundreds = View(hits, keys={"page": "page"}, window=count_window(100), measures={"n": count()})
SOURCES = (hits,)
VIEWS = (hops, hundreds)
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Thirty events below the cut and ten from it on, in two micro-batches; forty are archived."""
    made = World(tmp_path_factory.mktemp("world"))
    made.append(0, *(hit(f"/{n:02}", n) for n in range(30)))
    made.trigger()
    made.recompute(position(30), files=2)
    made.append(0, *(hit("/later", n) for n in range(1, 6)))
    made.trigger()
    made.append(1, *(hit("/later", n) for n in range(1, 6)))
    made.trigger()
    made.file_in_archive()
    return made


def explained(capsys: pytest.CaptureFixture[str], folder: Path, view: str) -> dict[str, Any]:
    assert main(["explain", view, "--project", str(folder), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_explain_shows_what_batch_reads_and_serving_holds(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(capsys, world.folder, "per_page")
    assert (found["publication"], found["release"]) == (2, 1)
    batch, serving = found["batch"], found["serving"]
    assert sum(file["rows"] for file in batch["files"]) == 40
    assert all((Path(batch["table"]) / file["path"]).stat().st_size == file["bytes"] for file in batch["files"])
    assert batch["cut"] == {"T": {"0": 30}}
    assert batch["columns"] == ["bytes", "moment", "page", "price"]
    assert (sum(batch["slices"]), len(batch["slices"]), batch["buckets"], batch["scans"]) == (40, 1, 1, 1)
    assert len(serving["files"]) == 2
    assert all((Path(batch["writes"]) / file["path"]).stat().st_size == file["bytes"] for file in serving["files"])
    assert (serving["rows"], serving["held"], serving["problem"]) == (30, True, None)
    assert serving["columns"] == state_schema(world.project.views["per_page"]).names
    assert {name: serving["tail"][name] for name in ("commits", "offsets", "rows")} == {"commits": 2, "offsets": 10, "rows": 2}
    assert found["speed"]["partitions"] == 2
    assert found["speed"]["together_with"] == batch["together_with"] == ["ever", "inverse"]
    assert Path(found["speed"]["writes"]).is_dir()


def test_the_text_has_the_same_facts(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "per_page", "--project", str(world.folder)]) == 0
    shown = capsys.readouterr().out
    for part in (
        'bytes = total("bytes"): exact',
        "states of equal page, window_start, window_end merge into one",
        "  rows 40, files",
        "tasks 1 to fold, 1 to merge",
        "batch version: rows 30, files 2, bytes ",
        "tail: commits 2, offsets 10, rows 2, bytes ",
        "  rows exact",
    ):
        assert part in shown


def test_before_the_first_publication_the_working_tree_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text(ORDERED)
    found = explained(capsys, tmp_path, "hops")
    assert (found["publication"], found["batch"], found["speed"], found["serving"]) == (None, None, None, None)
    logical = found["logical"]
    assert logical["unique"] == {"by": ["id", "at"], "dedup_window_s": 300}
    assert logical["label"] == {"lateness_s": 10, "idle_s": 60, "clock_skew_s": 420}
    assert logical["where"] == "bytes > 0"
    assert logical["window"]["slice_s"] == 60
    assert logical["arrange"] == ["window"]
    assert logical["measures"]["n"] == {
        "measure": "count(filter=\"page = '/'\")",
        "reads": ["page"],
        "states": {"n": "int64"},
        "bytes": "8",
        "answer": "exact",
    }
    assert logical["measures"]["pages"]["answer"] == "estimate, ±3.28 % at 95.4 % confidence"
    assert logical["derived"] == {"per": {"expression": "sum / n", "reads": ["n", "sum"]}}
    assert list(logical["present"]) == ["window_start", "window_end", "window_state", "n", "sum", "per", "pages"]
    assert not (tmp_path / ".tandem").exists()
    assert main(["explain", "hundreds", "--project", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "settle     batch, for all events below the cut: one row per page, topic_id, partition, window_number" in shown
    assert "label      late: 10 s behind its partition; ahead: 420 s after its record" in shown
    assert "nothing is published yet" in shown
    assert main(["check", "--project", str(tmp_path)]) == 0
    told = "late: 10 s behind its partition; idle: 60 s behind the newest; ahead: 420 s after its record"
    assert told in capsys.readouterr().out
    assert main(["check", "--project", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sources"]["hits"]["clock_skew_s"] == 420


@pytest.mark.parametrize("view", ["per_page", "ever", "inverse"])
def test_every_state_column_is_explained(world: World, capsys: pytest.CaptureFixture[str], view: str) -> None:
    states = explained(capsys, world.folder, view)["logical"]["measures"]
    named = {name: type_ for measure in states.values() for name, type_ in measure["states"].items()}
    kept = {name: str(state.type) for one in bind(world.project.views[view]).measures for name, state in one.states}
    assert named == kept


def test_prepare_is_a_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tandem.toml").touch()
    prepared = ORDERED.replace("hits = Source(", "def paged(hits):\n    return hits\n\n\nhits = Source(prepare=paged, ")
    prepared = prepared.replace("VIEWS = (hops, hundreds)", "VIEWS = (hops,)")
    (tmp_path / "definitions.py").write_text(prepared)
    assert explained(capsys, tmp_path, "hops")["logical"]["prepare"] == "paged"
    assert main(["explain", "hops", "--project", str(tmp_path)]) == 0
    assert "  prepare    paged: any number of rows" in capsys.readouterr().out


def test_an_unknown_view_is_one_sentence(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "per_pag", "--project", str(world.folder)]) == 1
    assert capsys.readouterr().err == "tandem: no view 'per_pag'; views: per_page, ever, inverse\n"
