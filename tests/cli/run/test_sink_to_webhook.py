"""docs/sink-to-webhook.md does what it shows, and a receiver gets the message that it shows."""

import json
import re
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tests.documented import DOCS, File, steps
from tests.serving.sinks.alerts.receiver import receiver
from tests.serving.world import World, hit


def test_each_command_prints_what_the_page_of_webhooks_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = "sink-to-webhook.md"
    (definitions,) = (step.text for step in steps(page) if isinstance(step, File))
    world = World(tmp_path, definitions=definitions)
    world.append(0, hit("/a", 1), hit("/b", 2), hit("/a", 3))
    world.trigger()
    monkeypatch.chdir(world.folder)
    with receiver() as heard:
        monkeypatch.setenv("ROWS_URL", f"{heard.address}/token")
        monkeypatch.setenv("WEBHOOK_SECRET", "quiet")
        for step in steps(page):
            if not isinstance(step, File):
                shown = step.show(capsys)
                assert "quiet" not in shown
                assert "/token" not in shown
        truncate, row = heard.documents
        assert truncate["kind"] == "truncate"
        (block,) = re.findall(r"```json\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
        example = json.loads(block)
        assert list(example) == list(row)
        assert {name: example[name] for name in ("key", "value", "kind", "last")} == {
            name: row[name] for name in ("key", "value", "kind", "last")
        }
        heard.answers = [503]
        world.append(0, hit("/a", 1))
        world.trigger()
        assert main(["sink", "rows", "--once"]) == 1
        said = capsys.readouterr().err
        assert f"{heard.address} answered 503" in said
        assert "/token" not in said
