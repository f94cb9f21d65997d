"""The views of each guide, loaded as a project of their own, answer what the page says; a measure of a page keeps the laws."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tests.documented import DOCS

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
REQUESTS = [
    (0, "ann", "/a", 200, 10),
    (10, "bob", "/a", 500, 30),
    (20, "ann", "/b", 200, 20),
    (29, "ann", "/a", 404, 40),
    (60, "ann", "/a", 200, 50),
    (700, "bob", "/b", 503, 60),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tandem.toml").touch()
    return tmp_path


def define(folder: Path, page: str) -> None:
    """Write the page's blocks of Python as the project's definitions."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (folder / "definitions.py").write_text("\n".join(blocks))


def lines(*events: dict[str, Any]) -> str:
    """Events as JSON lines."""
    return "".join(f"{json.dumps(event)}\n" for event in events)


@pytest.fixture
def rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[tuple[Any, ...]]]:
    """The columns of a view's answer from the lines of a file."""

    def answer(view: str, text: str, *columns: str) -> list[tuple[Any, ...]]:
        (folder / "events.txt").write_text(text)
        code = main(["try", view, str(folder / "events.txt"), "--project", str(folder), "--json"])
        out, err = capsys.readouterr()
        assert code == 0, err
        return [tuple(row[column] for column in columns) for row in json.loads(out)["rows"]]

    return answer


def test_common_questions_are_answered(folder: Path, rows: Callable[..., list[tuple[Any, ...]]]) -> None:
    define(folder, "how-to.md")
    asked = lines(
        *(
            {
                "id": str(n),
                "at": (NOON + timedelta(minutes=minute)).isoformat(),
                "reader": who,
                "path": path,
                "status": code,
                "ms": ms,
            }
            for n, (minute, who, path, code, ms) in enumerate(REQUESTS)
        )
    )
    assert rows("errors", asked, "hits", "failed", "share") == [
        (1, 0, 0.0),
        (1, 1, 1.0),
        (1, 0, 0.0),
        (1, 0, 0.0),
        (1, 0, 0.0),
        (1, 1, 1.0),
    ]
    ((pages,),) = rows("top", asked, "pages")
    assert [(page["value"], page["estimate"]) for page in pages] == [("/a", 4), ("/b", 2)]
    assert max(rows("active", asked, "readers")) == (2,)
    assert rows("by_minute", asked, "readers") == [(1,)] * 6
    assert rows("visits", asked, "reader", "pages", "minutes") == [
        ("ann", 3, 29.0),
        ("bob", 1, 0.0),
        ("ann", 1, 0.0),
        ("bob", 1, 0.0),
    ]
    assert rows("days", asked, "window_start", "hits", "wait") == [
        ("2026-10-31T23:00:00Z", 5, 30.0),
        ("2026-11-01T23:00:00Z", 1, 60.0),
    ]
    assert sorted(rows("recent", asked, "path", "slowest")) == [("/a", 50), ("/b", 60)]
    assert sorted(rows("state_of", asked, "path", "status")) == [("/a", 200), ("/b", 503)]


def test_topics_are_read_as_the_page_says(folder: Path, rows: Callable[..., list[tuple[Any, ...]]]) -> None:
    define(folder, "topics.md")
    kinds = ("view", "buy", "gift", "view", "lost")
    clicks = lines(*({"type": kind, "at": NOON.isoformat(), "page": "/a", "cents": 5} for kind in kinds))
    assert rows("seen", clicks, "views") == [(2,)]
    assert rows("sold", clicks, "cents") == [(10,)]
    retried = lines(*({"id": "1", "at": (NOON + timedelta(minutes=n)).isoformat(), "cents": 5 + n} for n in (0, 1)))
    assert rows("paid", retried, "cents") == [(5,)]
    tap = {"at": NOON.isoformat(), "door": "north"}
    assert rows("tapped", lines(tap, tap), "door", "n") == [("north", 2)]
    table = "watt,site,at,meter\n5,x,2026-11-01T00:00:00Z,a\n7,x,2026-11-01T00:00:00Z,b\n8,,2026-11-01T00:00:00Z,a\n"
    assert rows("drawn", table, "meter", "watt", "n") == [("a", 13, 2), ("b", 7, 1)]


def test_records_of_an_earlier_type_are_upgraded(folder: Path, rows: Callable[..., list[tuple[Any, ...]]]) -> None:
    define(folder, "event-type-changes.md")
    orders = lines({"id": "1", "at": NOON.isoformat(), "cents": 250}, {"id": "2", "at": NOON.isoformat(), "euros": "1.25"})
    assert rows("turnover", orders, "orders", "euros") == [(2, "3.75")]


def test_the_page_on_compacted_topics_defines_a_project(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    define(folder, "compacted-topics.md")
    assert main(["check", "--project", str(folder), "--json"]) == 0, capsys.readouterr().err


@pytest.mark.slow
def test_a_measure_of_a_page_keeps_the_laws(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    define(folder, "how-to.md")
    assert main(["check", "--laws", "--project", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["laws"] == {"state_of": {"status": None}}
