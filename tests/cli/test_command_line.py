"""What every command shares: how it is found, what it is called with, what it prints, and its exit codes."""

import importlib
import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from tandem.bench.serving import published
from tandem.cli import command_registry
from tandem.cli.__main__ import main
from tandem.cli.command.call import Call, NoProject, Output, resolve_project
from tandem.cli.command.typed_command import command_of
from tandem.infra.folders import EXAMPLES, ROOT
from tandem.views.errors import DefinitionError, TandemError


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch):
    """Put a function in the place of `status`, called for an example."""
    monkeypatch.setenv("TANDEM_PROJECT", str(EXAMPLES / "web"))

    def put(run) -> None:
        module = ModuleType("tandem.cli.run.status")
        module.run = run  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return put


@pytest.mark.parametrize("name", command_registry.COMMANDS)
def test_every_command_exists_and_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    for option in ("--project", "--json", "--debug"):
        assert option in shown
    assert main([name, "--no-such-option"]) == 2


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr()
    assert all(f"  {name} " in shown.out for name in command_registry.COMMANDS)
    assert main([]) == 2
    assert capsys.readouterr().err == shown.out


def test_help_has_groups_in_the_order_of_use_and_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    groups: dict[str, list[str]] = {}
    for line in lines[lines.index("Start:") :]:
        if line.endswith(":"):
            groups[line] = []
        elif line.startswith("  "):
            groups[next(reversed(groups))].append(line.split()[0])
    assert list(groups) == ["Start:", "Define:", "Run:", "Ask:", "Change:", "Operate:", "Develop:"]
    assert groups["Start:"] == ["demo", "init"]
    assert groups["Ask:"] == ["query", "why", "why-changed", "receipt", "sql", "pyspark", "watch"]
    assert groups["Change:"][:5] == ["plan", "apply", "diff", "rehearse", "promote"]
    assert sorted(name for names in groups.values() for name in names) == sorted(command_registry.COMMANDS)


def test_a_wrong_command_or_option_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["qeury"]) == 2
    shown = capsys.readouterr()
    assert "no command 'qeury'" in shown.err
    assert "'query'" in shown.err
    assert shown.out == ""
    assert main(["down", "--jsn"]) == 2
    assert "--json" in capsys.readouterr().err


def test_a_command_gets_its_call_and_its_own_parameters(command, tmp_path: Path) -> None:
    calls = []

    def run(call: Call, *, name: str = "x", many: list[str] | None = None) -> None:
        calls.append((call.project, call.json, call.debug, name, many))

    command(run)
    assert main(["status", "--name", "y", "--json", "--project", str(tmp_path), "--debug"]) == 0
    assert main(["status", "--project", str(tmp_path)]) == 0
    assert calls == [(tmp_path, True, True, "y", None), (tmp_path, False, False, "x", None)]


@pytest.mark.parametrize("document", [{"name": "é", "n": 2**70, "x": None}, []])
def test_json_is_one_document_and_nothing_else(command, document: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def run(call: Call) -> Output:
        call.say("working")
        return Output(document, "for people", code=3)

    command(run)
    assert main(["status", "--json"]) == 3
    shown = capsys.readouterr()
    assert json.loads(shown.out) == document
    assert shown.err == "working\n"
    assert main(["status"]) == 3
    assert capsys.readouterr().out == "for people\n"


def test_an_argument_that_is_not_utf8_is_repeated_as_its_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    """As Python has the bytes of an argument that are no UTF-8."""
    assert main(["check", "--project", "/tmp/\udcff", "--json"]) == 1
    shown = capsys.readouterr()
    assert "\\udcff" in json.loads(shown.out)["error"]
    assert "no project at" in shown.err


@pytest.mark.parametrize(
    ("error", "sentence", "code"),
    [
        (TandemError("view 'x' is not there; views: y"), "view 'x' is not there; views: y", "failed"),
        (TandemError("no view 'x'", code="view-unknown"), "no view 'x'", "view-unknown"),
        (DefinitionError("no field 'x'"), "no field 'x'", "definition-invalid"),
        (
            OSError(28, "No space left on device", "/full/file"),
            "no space left on device: /full/file; free space, then run the command again",
            "disk-full",
        ),
        (ValueError("first line\nsecond line"), "ValueError: first line; --debug shows where", "internal-error"),
        (KeyError(), "KeyError; --debug shows where", "internal-error"),
        (
            Py4JNetworkError("Answer from Java side is empty"),
            (
                "Spark failed: Spark's Java process has ended: it was killed, or has crashed; run the command again, with a "
                "larger `spark.driver_memory` if this is repeated"
            ),
            "java-ended",
        ),
    ],
)
def test_any_error_is_one_sentence(
    command, error: Exception, sentence: str, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    importlib.import_module("pyspark")

    def run(call: Call) -> Output:
        raise error

    command(run)
    assert main(["status"]) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", f"tandem: {sentence}\n")
    assert main(["status", "--json"]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"error": sentence, "code": code}
    assert main(["status", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_the_project_is_the_named_one_else_the_one_here(tmp_path: Path) -> None:
    here, named = tmp_path / "here", tmp_path / "named"
    here.mkdir()
    with pytest.raises(NoProject, match=r"no project here; `\./tandem init my_shop` makes one"):
        resolve_project(None, {}, here)
    (here / "my shop").mkdir()
    (here / "my shop" / "tandem.toml").touch()
    with pytest.raises(NoProject, match="no project here; use --project 'my shop'"):
        resolve_project(None, {}, here)
    (here / "tandem.toml").touch()
    assert resolve_project(None, {}, here) == here
    assert resolve_project(None, {"TANDEM_PROJECT": str(named)}, here) == named
    assert resolve_project(Path("../other"), {"TANDEM_PROJECT": str(named)}, here) == tmp_path / "other"


def test_an_absent_project_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["down", "--project", str(tmp_path / "nowhere")]) == 1
    assert capsys.readouterr().err == f"tandem: no project at {tmp_path / 'nowhere'}: the folder does not exist\n"


def test_a_command_outside_a_project_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TANDEM_PROJECT", raising=False)
    monkeypatch.setenv("TANDEM_LAUNCHER", "../its tree/tandem")
    assert main(["up", "--json"]) == 1
    shown = capsys.readouterr()
    assert shown.err == (
        "tandem: no project here; `'../its tree/tandem' init my_shop` makes one, and --project DIR names one elsewhere, such as "
        f"{shlex.quote(str(EXAMPLES / 'web'))}\n"
    )
    assert json.loads(shown.out)["code"] == "project-missing"
    assert list(tmp_path.iterdir()) == []
    assert main(["init", "my shop"]) == 0
    assert "  '../its tree/tandem' check --project 'my shop'\n" in capsys.readouterr().out
    assert main(["check"]) == 1
    assert capsys.readouterr().err == "tandem: no project here; use --project 'my shop'\n"


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("run `tandem up` to create it", "run `../tandem up --project 'my shop'` to create it"),
        ("`tandem recompute --accept-gap g-1`", "`../tandem recompute --accept-gap g-1 --project 'my shop'`"),
        ("`tandem airflow -- dags list`", "`../tandem airflow --project 'my shop' -- dags list`"),
        ("`tandem init DIR` and `tandem`", "`../tandem init DIR` and `tandem`"),
        ("`tandem down --project other`, tandem up", "`../tandem down --project other`, tandem up"),
    ],
)
def test_a_command_in_a_sentence_can_be_pasted(said: str, typed: str) -> None:
    words = ["x", "--project", "first", "--project=my shop", "--", "--project", "of a script"]
    assert command_of(words, {"TANDEM_LAUNCHER": "../tandem"}, without={"init"}).in_text(said) == typed
    assert command_of([], {"TANDEM_LAUNCHER": "tandem"}).in_text(said) == said


def run_python(script: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)


def test_a_closed_pipe_is_not_reported_as_an_error() -> None:
    done = run_python(
        "import os, sys; from tandem.cli.__main__ import main\n"
        "read, write = os.pipe(); os.close(read); os.dup2(write, 1); "
        "sys.exit(main(['check', '--json', '--project', 'examples/web']))"
    )
    assert (done.returncode, done.stderr) == (1, "")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a publication and without a broker."""
    folder = tmp_path_factory.mktemp("small") / "project"
    published.publish(folder, 10)
    return folder


@pytest.mark.parametrize(
    ("command", "beside"),
    [
        (["query", published.VIEW, "--key", f"page={published.page(1)}"], {"duckdb", "pyarrow.compute"}),
        (["check"], {"duckdb", "pyarrow.compute"}),
        (["history"], set()),
        (["status"], {"duckdb", "pyarrow.compute"}),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_commands_that_read_import_few_packages(command: list[str], beside: set[str], small: Path) -> None:
    """Start-up is mostly imports: Kafka's clients wait for a known broker, rich for a terminal, pydantic for numbers."""
    done = run_python(
        "import sys; from tandem.cli.__main__ import main\n"
        f"assert main([*{command!r}, '--project', {str(small)!r}]) in (0, 1)\n"
        "heavy = {'confluent_kafka', 'duckdb', 'fastapi', 'fastavro', 'google', 'kafka', 'pandas', 'pyarrow.compute', 'pydantic',"
        " 'pyspark', 'rich', 'xml'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    assert done.stderr.splitlines()[-1] == f"{sorted(beside)}"


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_start_at_once(option: str) -> None:
    """They import a few modules of this checkout, and no package that is installed."""
    done = run_python(
        "import sys; began = set(sys.modules)\n"
        f"from tandem.cli.__main__ import main; assert main([{option!r}]) == 0\n"
        "named = {'.'.join(name.split('.')[:2]) for name in set(sys.modules) - began}\n"
        "print(sorted(name for name in named if name.split('.')[0] not in sys.stdlib_module_names), file=sys.stderr)"
    )
    assert done.stderr == "['tandem', 'tandem.cli', 'tandem.infra', 'tandem.views']\n"


def test_the_version_is_that_of_pyproject(capsys: pytest.CaptureFixture[str]) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tandem {declared}\n"


def test_help_prints_each_item_of_a_list_on_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["apply", "--help"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line[:5] for line in printed if line[2:3].isdigit()] == ["  1. ", "  2. ", "  3. "]
    assert main(["plan", "--help"]) == 0
    assert sum(line.startswith("  * `") for line in capsys.readouterr().out.splitlines()) == 4
