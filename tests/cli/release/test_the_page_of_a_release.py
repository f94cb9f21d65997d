"""docs/try-a-release.md: its commands, run on its own project, give the output in the page. The workflow calls what exists."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from typer.main import get_command

from tandem.cli.command_line import application
from tandem.infra.folders import ROOT
from tests.documented import Command, File, steps
from tests.serving.http.served import Served
from tests.serving.two_releases import applied, build
from tests.serving.world import World, position

FIRST = [("/a", "ann", 10.0), ("/a", "monitor", 40.0), ("/b", "bob", 5.0), ("/health", "monitor", 1.0), ("/b", "monitor", 8.0)]
LATER = [("/a", "bob", 20.0), ("/b", "monitor", 6.0), ("/health", "monitor", 2.0)]


def record(page: str, reader: str, ms: float) -> bytes:
    return json.dumps({"at": "2026-11-01T12:05:00Z", "page": page, "reader": reader, "ms": ms}).encode()


def test_every_command_gives_the_output_in_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown, world = 0, None
    for step in steps("try-a-release.md"):
        if isinstance(step, File) and world is None:
            world = World(tmp_path, definitions=step.text)
            for some in (FIRST, LATER):
                world.append(0, *(record(*each) for each in some))
                world.trigger()
            world.recompute(position(5))
        elif isinstance(step, File):
            assert world is not None
            (tmp_path / "definitions.py").write_text(step.text)
            ready = applied(world, step.text)
            ready.trigger()
            build(ready, position(5))
        else:
            assert isinstance(step, Command)
            step.show(capsys, "--project", str(tmp_path), code=None)
            shown += 1
    assert shown == 6


def test_the_request_in_the_page_gives_answers_that_are_not_live(tmp_path: Path) -> None:
    first, changed = (step.text for step in steps("try-a-release.md") if isinstance(step, File))
    world = World(tmp_path, definitions=first)
    world.append(0, *(record(*each) for each in FIRST))
    world.trigger()
    world.recompute(position(5))
    build(applied(world, changed), position(5))
    page = (ROOT / "docs" / "try-a-release.md").read_text("utf-8")
    (path,) = re.findall(r'^curl .*"http://[^/]+(/\S+)"$', page, re.MULTILINE)
    with Served(world).asker() as ask:
        answer = ask.get(path).json()
    assert (answer["provenance"]["release"], answer["provenance"]["live"]) == (2, False)
    assert [(row["page"], row["requests"]) for row in answer["rows"]] == [("/a", 1), ("/b", 1)]


WORKFLOW: dict[str, Any] = msgspec.yaml.decode((ROOT / "examples" / "ci" / "release.yaml").read_text("utf-8"))


def calls() -> list[list[str]]:
    """The commands of Tandem in the workflow, in order."""
    (job,) = WORKFLOW["jobs"].values()
    lines = [line for step in job["steps"] for line in step.get("run", "").splitlines()]
    found = [re.search(r"\btandem ([a-z][^|>]*)", line) for line in lines]
    return [shlex.split(match[1]) for match in found if match]


def test_the_workflow_plans_applies_compares_and_posts() -> None:
    (job,) = WORKFLOW["jobs"].values()
    assert [step["name"] for step in job["steps"] if "name" in step] == ["Check", "Plan", "Apply", "Diff", "Post"]
    assert [call[0] for call in calls()] == ["check", "plan", "apply", "diff"]
    assert WORKFLOW["permissions"] == {"contents": "read", "pull-requests": "write"}


@pytest.mark.parametrize("call", calls(), ids=lambda call: call[0])
def test_its_commands_and_options_exist(call: list[str], tmp_path: Path) -> None:
    name, *arguments = call
    command = get_command(application(name, environ={}, cwd=tmp_path))
    numbered = ["2" if argument == "$release" else argument for argument in arguments]
    command.make_context(name, numbered)


def test_a_wrong_option_of_the_workflow_is_seen(tmp_path: Path) -> None:
    command = get_command(application("diff", environ={}, cwd=tmp_path))
    with pytest.raises(typer.TyperException, match="--markdwn"):
        command.make_context("diff", ["2", "--markdwn"])
