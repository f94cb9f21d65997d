"""`diff`: totals, the worst rows and their reasons, as text, JSON, Markdown; `promote` prints figures that `apply` recorded."""

import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tests.serving.two_releases import CHANGES, applied, build, edited
from tests.serving.world import DEFINITIONS, World, hit, one_ready, position


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Release 1 is live; release 2 is ready, and counts other hits in `ever` and another largest one in `per_page`."""
    live = World(tmp_path)
    live.append(0, *(hit(f"/{n:02}|*x*", n) for n in range(30)), hit("/00|*x*", 5000))
    live.trigger()
    live.recompute(position(31))
    ready = applied(live, edited("another filter", "another measure"))
    build(ready, position(31))
    return live


def run(world: World, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main([*arguments, "--project", str(world.folder)])
    return (code, *capsys.readouterr())


def test_totals_come_first_then_the_worst_rows(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(world, capsys, "diff", "2", "--view", "ever", "--view", "per_page", "--limit", "2")
    lines = out.splitlines()
    assert code == 0
    assert lines[:4] == [
        "release 2 as if it were promoted now, beside the live release 1 (publication 2)",
        "view ever: 0 rows the same, 1 changed, 0 only live, 0 only release 2",
        "  reasons: 1 row new definition",
        "  row of  its values                                      its reason",
    ]
    assert "n 30 -> 27, bytes 5435 -> 5429, pages 30 -> 27" in lines[4]
    assert lines[5:8] == [
        "view per_page: 0 rows the same, 30 changed, 0 only live, 0 only release 2",
        "  reasons: 30 rows new definition",
        "  the 2 worst of 30 rows",
    ]
    assert [line.split()[0] for line in lines[9:]] == ["/01|*x*", "/02|*x*"]  # 2 instead of 1, then 3 instead of 2


def test_a_document_has_rows_with_both_values_and_reasons(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--json"], ["--format", "json"]):
        code, out, _ = run(world, capsys, "diff", "2", "--view", "per_page", "--key", "page=/01|*x*", *options)
        found: dict[str, Any] = json.loads(out)
        assert (code, found["release"], found["live_release"], [*found["views"]]) == (0, 2, 1, ["per_page"])
        (row,) = found["views"]["per_page"]["rows"]
        assert row["row"]["page"] == "/01|*x*"
        assert row["measures"] == {"largest": {"live": 1, "release": 2}}
        assert (row["only"], row["reasons"], row["certain"]) == (None, ["new definition"], True)
        assert row["relative_error"] == pytest.approx(2 / 3)


def test_markdown_shows_keys_as_they_are(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(world, capsys, "diff", "2", "--markdown", "--limit", "1")
    assert code == 0
    assert "| view | the same | changed | only live | only release 2 |" in out
    assert "| ever | 0 | 1 | 0 | 0 |" in out
    assert "/01&#124;&#42;x&#42;" in out
    assert {line.count(" | ") for line in out.splitlines() if line.startswith("| /01")} == {5}


def test_keys_named_like_other_columns_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    definitions = DEFINITIONS.replace('keys={"page": "page"}', 'keys={"reason": "page", "values": "bytes"}')
    live = World(tmp_path, definitions=definitions)
    live.append(0, hit("/broken", 4711))
    live.trigger()
    live.recompute(position(1))
    build(applied(live, definitions.replace(*CHANGES["another measure"])), position(1))
    for options in ([], ["--markdown"]):
        code, out, _ = run(live, capsys, "diff", "2", "--view", "per_page", *options)
        (row,) = [line for line in unescape(out).splitlines() if "largest" in line]
        assert code == 0
        assert all(text in row for text in ("/broken", "4711", "largest 4711 -> 4712", "new definition"))
        assert row.count("4711") == 2, "as a key, and as a value"


def test_what_cannot_be_compared_is_one_sentence(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, told in {
        ("diff", "7"): "release 7 was neither live nor applied; ready: 2",
        ("diff", "1"): "release 1 is live already, so there is nothing to compare",
        ("diff", "2", "--view", "evr"): "no view 'evr'; views of both releases 1 and 2: ever, inverse, per_page",
        ("diff", "2", "--key", "page=/"): "--key needs --view, because views have different keys",
        ("diff", "2", "--markdown", "--format", "json"): "--markdown cannot be combined with --format or --json",
    }.items():
        code, out, err = run(world, capsys, *arguments)
        assert (code, out, err.strip()) == (1, "", f"tandem: {told}")


def test_promote_prints_the_figures_of_apply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = one_ready(tmp_path)
    told = ["  view per_page: 8 rows the same, 2 changed, 0 only live, 0 only release 2", "  view ever: unchanged"]
    code, out, _ = run(world, capsys, "promote", "2", "--check")
    assert (code, out.splitlines()) == (0, ["the gate is open for release 2", *told])
    code, out, _ = run(world, capsys, "promote", "2")
    assert (code, out.splitlines()) == (0, ["publication 3: release 2 is live", *told])
