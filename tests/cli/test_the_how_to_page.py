"""The views of docs/how-to.md, loaded as one project, answer what the page says, and its own measure keeps the laws."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tests.documented import DOCS

CODE = "\n".join(re.findall(r"^```python\n(.*?)^```$", (DOCS / "how-to.md").read_text("utf-8"), re.MULTILINE | re.DOTALL))
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
    (tmp_path / "definitions.py").write_text(CODE)
    lines = [
        {
            "id": str(n),
            "at": (NOON + timedelta(minutes=minute)).isoformat(),
            "reader": who,
            "path": path,
            "status": code,
            "ms": ms,
        }
        for n, (minute, who, path, code, ms) in enumerate(REQUESTS)
    ]
    (tmp_path / "requests.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return tmp_path


def test_answers_are_those_added_up_by_hand(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def rows(view: str, *names: str, file: str = "requests.jsonl") -> list[tuple[Any, ...]]:
        code = main(["try", view, str(folder / file), "--project", str(folder), "--json"])
        out, err = capsys.readouterr()
        assert code == 0, err
        return [tuple(row[name] for name in names) for row in json.loads(out)["rows"]]

    assert rows("errors", "hits", "failed", "share") == [
        (1, 0, 0.0),
        (1, 1, 1.0),
        (1, 0, 0.0),
        (1, 0, 0.0),
        (1, 0, 0.0),
        (1, 1, 1.0),
    ]
    ((pages,),) = rows("top", "pages")
    assert [(page["value"], page["estimate"]) for page in pages] == [("/a", 4), ("/b", 2)]
    assert max(rows("active", "readers")) == (2,)
    assert rows("by_minute", "readers") == [(1,)] * 6
    assert rows("visits", "reader", "pages", "minutes") == [
        ("ann", 3, 29.0),
        ("bob", 1, 0.0),
        ("ann", 1, 0.0),
        ("bob", 1, 0.0),
    ]
    assert rows("days", "window_start", "hits", "wait") == [
        ("2026-10-31T23:00:00Z", 5, 30.0),
        ("2026-11-01T23:00:00Z", 1, 60.0),
    ]
    assert sorted(rows("recent", "path", "slowest")) == [("/a", 50), ("/b", 60)]
    clicks = [
        {"type": kind, "at": NOON.isoformat(), "page": "/a", "cents": 5} for kind in ("view", "buy", "gift", "view", "lost")
    ]
    (folder / "clicks.jsonl").write_text("".join(f"{json.dumps(click)}\n" for click in clicks))
    assert rows("seen", "views", file="clicks.jsonl") == [(2,)]
    assert rows("sold", "cents", file="clicks.jsonl") == [(10,)]
    orders = [{"id": "1", "at": NOON.isoformat(), "cents": 250}, {"id": "2", "at": NOON.isoformat(), "euros": "1.25"}]
    (folder / "orders.jsonl").write_text("".join(f"{json.dumps(order)}\n" for order in orders))
    assert rows("turnover", "orders", "euros", file="orders.jsonl") == [(2, "3.75")]
    tap = json.dumps({"at": NOON.isoformat(), "door": "north"})
    (folder / "taps.jsonl").write_text(f"{tap}\n{tap}\n")
    assert rows("tapped", "door", "n", file="taps.jsonl") == [("north", 2)]
    assert sorted(rows("state_of", "path", "status")) == [("/a", 200), ("/b", 503)]
    (folder / "requests.jsonl").write_text(
        "watt,site,at,meter\n5,x,2026-11-01T00:00:00Z,a\n7,x,2026-11-01T00:00:00Z,b\n8,,2026-11-01T00:00:00Z,a\n"
    )
    assert rows("drawn", "meter", "watt", "n") == [("a", 13, 2), ("b", 7, 1)]


def test_its_own_measure_keeps_the_laws(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--laws", "--project", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["laws"] == {"state_of": {"status": None}}
