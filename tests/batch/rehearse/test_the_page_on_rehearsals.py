"""docs/rehearse.md shows what its commands print; as JSON and Markdown they have the same."""

import json
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.rehearse.rehearse import rehearse
from tandem.batch.release.release_plan import Terms
from tandem.cli.__main__ import main
from tandem.cli.command.call import Output
from tandem.cli.release.rehearse import output
from tandem.cli.release.rehearsed_rows import compare_rows
from tandem.serving.read.selection import parse_span
from tandem.views.errors import TandemError
from tests.batch.shop import MemoryShop, Shop
from tests.documented import Command, File, steps

REQUESTS = (
    ("08:40", "08:39", "/pay", 200),
    ("08:50", "08:49", "/pay", 429),
    ("09:20", "09:19", "/", 200),
    ("09:30", "09:29", "/cart", 500),
    ("09:40", "09:39", "/cart", 500),
    ("10:30", "08:58", "/pay", 200),
    ("10:40", "10:39", "/", 200),
)
"""When each request was appended and made, its route and status."""


def request(made: str, route: str, status: int) -> bytes:
    return json.dumps({"moment": f"2026-11-01T{made}:00Z", "route": route, "status": status}).encode()


def change_definitions(memory_shop: Shop, requests: Sequence[tuple[str, str, str, int]] = REQUESTS) -> Command:
    """The page's project, with these requests below the live cut and the page's changed definitions; the page's command."""
    live, other, command = steps("rehearse.md")
    assert isinstance(live, File)
    assert isinstance(other, File)
    assert isinstance(command, Command)
    topic = f'topic="{memory_shop.topic.name}"'
    memory_shop.define(live.text.replace('topic="requests"', topic))
    if isinstance(memory_shop, MemoryShop):
        for appended, made, route, status in requests:
            at = datetime.fromisoformat(f"2026-11-01T{appended}:00Z")
            memory_shop.log.append([request(made, route, status)], at=at)
    else:
        memory_shop.sell({0: [request(*of[1:]) for of in requests]})
    write_archive.run(memory_shop.run("archive"), memory_shop.project)
    recompute.run(memory_shop.run("recompute"), memory_shop.project)
    memory_shop.define(other.text.replace('topic="requests"', topic))
    return command


def rehearsal_of(shop: MemoryShop, line: str, *, markdown: bool = False) -> Output:
    tandem, name, *options = shlex.split(line)
    assert (tandem, name) == ("tandem", "rehearse")
    spans: dict[str, timedelta] = {
        option.removeprefix("--"): parse_span(span) for option, span in zip(options[::2], options[1::2], strict=True)
    }
    result = rehearse(shop.run("rehearse"), shop.project(), Terms(), partial(compare_rows, 3), **spans)  # type: ignore[arg-type]
    return output(result, markdown=markdown)


def test_the_page_shows_what_a_rehearsal_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory_shop = MemoryShop.of(tmp_path, monkeypatch)
    command = change_definitions(memory_shop)
    result = rehearsal_of(memory_shop, command.line)
    assert command.missing(f"{result.shown}\n") is None, result.shown
    document: Any = result.document
    edges = [(each["at"], edge["kind"], edge["sides"]) for each in document["checkpoints"] for edge in each["alerts"]]
    assert edges == [
        ("2026-11-01T09:00:00Z", "raised", ["release"]),
        ("2026-11-01T10:00:00Z", "raised", ["live", "release"]),
        ("2026-11-01T10:40:00Z", "corrected", ["release"]),
    ]
    assert document["cost"]["page_errors"]["live"]["events"] == 7
    text = str(rehearsal_of(memory_shop, command.line, markdown=True).shown)
    assert "| 2026-11-01T10:40:00Z | page&#95;errors | 3 | 1 | 0 | 0 |" in text
    assert "* alert failing corrected because of late, only release 2: /pay: 33% errors" in text
    assert "**page&#95;errors** at 2026-11-01T10:00:00Z" in text


def test_checkpoints_without_news_take_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory_shop = MemoryShop.of(tmp_path, monkeypatch)
    change_definitions(memory_shop)
    result = rehearsal_of(memory_shop, "tandem rehearse --since 1h --every 10m")
    lines = [line for line in f"{result.shown}".splitlines() if line.startswith("2026-")]
    shown = {line.split(": ")[0]: line.split(": ")[1] for line in lines}
    assert list(shown.values()) == ["5 events", *["as before"] * 4, "6 events", "7 events"]
    document: Any = result.document
    assert list(shown) == [each["at"] for each in document["checkpoints"]]


def test_an_alert_that_both_sides_raise_with_other_texts_is_of_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory_shop = MemoryShop.of(tmp_path, monkeypatch)
    command = change_definitions(memory_shop, (*REQUESTS[:5], ("09:50", "09:49", "/cart", 429), *REQUESTS[5:]))
    result = rehearsal_of(memory_shop, command.line)
    document: Any = result.document
    (edge,) = (edge for each in document["checkpoints"] for edge in each["alerts"] if edge["row"]["route"] == "/cart")
    assert (edge["text"], edge["release_text"]) == ("/cart: 67% errors", "/cart: 100% errors")
    assert edge["sides"] == ["live", "release"]
    assert "both: /cart: 67% errors -> /cart: 100% errors (" in str(result.shown)


def test_an_alert_counts_records_that_are_younger_than_those_after_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last two records of the log are of 08:40 and 08:50, so that at 10:00 the log has new events, and no higher offset."""
    memory_shop = MemoryShop.of(tmp_path, monkeypatch)
    command = change_definitions(memory_shop, (*REQUESTS[3:5], *REQUESTS[:2]))
    document: Any = rehearsal_of(memory_shop, command.line.replace("1h", "10m")).document
    edges = [(each["at"], edge["kind"], edge["row"]["route"]) for each in document["checkpoints"] for edge in each["alerts"]]
    assert edges == [("2026-11-01T08:50:00Z", "raised", "/pay"), ("2026-11-01T09:40:00Z", "raised", "/cart")]


def test_alerts_of_views_that_are_not_rehearsed_have_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory_shop = MemoryShop.of(tmp_path, monkeypatch)
    change_definitions(memory_shop)
    memory_shop.define(
        (memory_shop.folder / "definitions.py").read_text()
        + '\nother = View(source=hits, measures={"hits": count()})\nVIEWS = (page_errors, other)\n'
    )
    run = memory_shop.run("rehearse")
    spans = {"since": timedelta(hours=2), "every": timedelta(hours=1)}
    result = output(rehearse(run, memory_shop.project(), Terms(), partial(compare_rows, 3), views=("other",), **spans))
    document: Any = result.document
    assert document["alerts"] == {}
    assert "alert failing" not in str(result.shown)


def test_a_log_without_events_has_nothing_to_rehearse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory_shop = MemoryShop.of(tmp_path, monkeypatch)
    memory_shop.log.append([b"{"])
    write_archive.run(memory_shop.run("archive"), memory_shop.project)
    recompute.run(memory_shop.run("recompute"), memory_shop.project)
    with pytest.raises(TandemError, match="publication 2 counts no event, so there is nothing to rehearse"):
        rehearsal_of(memory_shop, "tandem rehearse --since 1h --every 10m")


@pytest.mark.slow
@pytest.mark.broker
def test_rehearse_runs_on_spark_and_leaves_nothing(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    change_definitions(shop)
    now = datetime.now(UTC)
    files = sorted(path for path in (shop.folder / "state").rglob("*") if path.is_file() and "logs" not in path.parts)
    assert main(["rehearse", "--since", "1m", "--every", "10s", "--json", "--project", str(shop.folder)]) == 0
    document = json.loads(capsys.readouterr().out)
    *_, last = document["checkpoints"]
    assert datetime.fromisoformat(last["at"]) <= now
    assert last["events"] == {"live": 7, "release": 7}
    assert last["views"]["page_errors"]["changed"] == 1
    assert document["alerts"]["failing"]["live"]["raised"] == 1
    assert sorted(path for path in (shop.folder / "state").rglob("*") if path.is_file() and "logs" not in path.parts) == files
    assert main(["rehearse", "--markdown", "--json", "--project", str(shop.folder)]) == 1
    assert main(["rehearse", "--since", "week", "--project", str(shop.folder)]) == 1
