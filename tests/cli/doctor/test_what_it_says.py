"""The output of the doctor, and docs/doctor.md, which its checks generate."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from tandem.cli.__main__ import main
from tandem.cli.command_registry import COMMANDS
from tandem.cli.doctor import CHECKS
from tandem.cli.doctor.check import Outcome
from tandem.infra.folders import ROOT
from tandem.infra.settings import keys
from tests.documented import DOCS

PAGE = (DOCS / "doctor.md").read_text("utf-8")
ROWS = [row for check in CHECKS for row in check.rows()]


def test_the_page_has_a_row_for_every_problem_and_no_other() -> None:
    assert [line for line in PAGE.splitlines() if re.match(r"\| `.* \| (warn|fail) \| ", line)] == ROWS


def test_the_page_names_commands_and_settings_that_exist() -> None:
    named = re.findall(r"`tandem (\w+)", PAGE)
    assert {"archive", "up"} <= set(named) <= set(COMMANDS)
    sections = {key.name.partition(".")[0] for key in keys() if "." in key.name}
    settings = {name for name in re.findall(r"`([a-z]+\.[a-z_]+)`", PAGE) if name.partition(".")[0] in sections}
    assert {"kafka.port"} <= settings <= {key.name for key in keys()}


def test_a_check_comes_after_those_that_it_needs() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
    for place, check in enumerate(CHECKS):
        assert set(check.needs) <= set(names[:place]), check.name


def told(folder: Path, capsys: pytest.CaptureFixture[str], code: int) -> dict[str, Any]:
    assert main(["doctor", "--json", "--project", str(folder)]) == code
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["ok", "checks"]
    for one in document["checks"]:
        assert list(one) == ["check", "outcome", "found", "fix"]
        assert one["outcome"] in get_args(Outcome)
        assert (one["fix"] is None) == (one["outcome"] in ("ok", "unknown"))
    assert list(dict.fromkeys(one["check"] for one in document["checks"])) == [check.name for check in CHECKS]
    assert document["ok"] == all(one["outcome"] != "fail" for one in document["checks"])
    return {one["check"]: one for one in document["checks"]}


def test_warnings_are_not_failures_and_checks_after_a_failure_are_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text("SOURCES = ()\nVIEWS = ()\n")
    found = told(tmp_path, capsys, 0)
    assert {name for name, one in found.items() if one["outcome"] == "unknown"} == {
        "broker",
        "topics",
        "retention",
        "transactions",
        "timestamps",
    }
    assert not (tmp_path / ".tandem").exists()
    left = tmp_path / ".tandem" / "tables" / "scratch" / "left"
    left.parent.mkdir(parents=True)
    left.touch()
    found = told(tmp_path, capsys, 0)
    assert (found["leftovers"]["outcome"], found["leftovers"]["fix"]) == ("warn", "`tandem maintain` deletes them")
    assert main(["doctor", "--project", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^ WARN +leftovers +1 file in ", shown, re.MULTILINE)
    assert re.search(r"^ +fix: `tandem maintain` deletes them *$", shown, re.MULTILINE)
    (tmp_path / "tandem.toml").write_text("nothing = 1\n")
    found = told(tmp_path, capsys, 1)
    assert (found["settings"]["outcome"], found["definitions"]["outcome"]) == ("fail", "ok")
    assert found["state"] == {"check": "state", "outcome": "unknown", "found": "not checked; see settings", "fix": None}
    assert found["tables"]["found"] == "not checked; see state"


def test_doctor_needs_no_spark() -> None:
    script = "import sys; from tandem.cli import doctor; print('pyspark' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
