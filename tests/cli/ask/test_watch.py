"""`watch` prints each change once, and continues from a token in another process."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.infra.folders import ROOT
from tandem.serving import connect
from tests.serving.world import World, forty_hits, hit


@contextmanager
def watching(world: World, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """A `watch` of per_page, which a plain kill ends in order."""
    command = [sys.executable, "-m", "tandem.cli", "watch", "per_page", "--project", str(world.folder), *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
        assert process.returncode == 0
    finally:
        process.kill()


def more(world: World, *values: bytes) -> None:
    world.append(1, *values)
    world.trigger()


def said(process: "subprocess.Popen[str]") -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def test_changes_arrive_once_and_continue_in_another_process(tmp_path: Path) -> None:
    world = forty_hits(tmp_path)
    with connect(world.folder, every_s=None) as connection:
        token = connection.view("per_page").now().token
    more(world, hit("/later", 5), hit("/new", 1))
    with watching(world, "--json", "--since", token) as process:
        first = said(process)
        assert {row["page"]: row["n"] for row in first["rows"]} == {"/later": 11, "/new": 1}
        more(world, hit("/new", 2))
        second = said(process)
        assert [(row["page"], row["n"], row["bytes"]) for row in second["rows"]] == [("/new", 2, 3)]
        assert (first["gone"], second["gone"]) == ([], [])
    more(world, hit("/late", 3))
    with watching(world, "--since", second["token"]) as process:
        assert process.stdout is not None
        line, follows = process.stdout.readline(), process.stdout.readline()
        assert (line[:2], json.loads(line[2:])["page"], follows[:2]) == ("+ ", "/late", "# ")


def test_an_invalid_watch_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = forty_hits(tmp_path)
    for arguments, words in (
        (("nothing",), "no view 'nothing' is published"),
        (("per_page", "--since", "x"), "invalid token 'x'"),
    ):
        assert main(["watch", *arguments, "--project", str(world.folder)]) == 1
        assert words in capsys.readouterr().err
