"""`tandem test`: everything that CI checks except the demo: lint, types, the direction of imports, then the tests.

Arguments that select tests run these alone.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from tandem.cli.command import exit_codes
from tandem.cli.command.call import Call, Output
from tandem.infra import folders
from tandem.infra.airflow import packages
from tandem.views.errors import TandemError

_SLOW = "not slow"
# A file's tests stay together, so that they share a session; tests/conftest.py begins with the longest.
_SPREAD = ("--dist", "loadfile", "--no-loadscope-reorder")
_PROCESSES = range(2, 6)
"""How many processes test. Four that mostly wait for Java, and a fifth that computes, keep two cores busy."""
_MEMORY = 4 * 2**30
"""Bytes for a process of tests: Spark's JVM, a broker, and a project that is started beside them."""
_SLOWEST = ("--durations", "20", "--durations-min", "1")
"""At the end, the slowest tests and fixtures."""
# The long run has single tests that take many minutes. Demos and Airflow's schedulers leave a third process its time. What only
# computes does so in new processes: in those that have run thousands of tests it takes twice as long.
_LONG = ("--timeout", "3000")
_PARTS = {"tests": ("--part", "other", "-n", "3"), "examples": ("--part", "computing", "-n", "2")}
_NOTHING = 5
"""Pytest's exit code if its arguments select no test."""
# The tests' Java mostly lives for seconds, in which it would compile itself well for longer than it then runs, and has little to
# collect.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def run(
    call: Call,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Also run the slow tests, and search longer for counterexamples.")] = False,
    mutants: Annotated[
        bool,
        typer.Option(
            "--mutants",
            help="Run mutation tests instead: change the named files or folders slightly, and run the tests that reach each "
            "change.",
        ),
    ] = False,
    campaign: Annotated[
        float | None,
        typer.Option(
            "--campaign",
            metavar="MINUTES",
            help="Run a fault-injection campaign instead: kill and freeze the processes of a real project for that long, and "
            "compare its answers with an oracle.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="The random seed of --campaign; each run has another one by default.")
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- ARGUMENTS",
            help="Arguments for pytest, such as `-n 0`; a path of tests or `-k WORDS` runs these tests alone. With --mutants: "
            "files, folders, `--sample N`, `--seed SEED` (see `-- --help`).",
        ),
    ] = None,
) -> Output:
    """Check lint, types and import directions of this checkout, and run its tests."""
    if sum((all_, mutants, campaign is not None)) > 1:
        raise TandemError("--all, --mutants and --campaign are separate runs; type one of them", code="usage-invalid")
    if seed is not None and campaign is None:
        raise TandemError(
            "--seed belongs to --campaign; type `-- --seed N` for the seed of --mutants or of tests/simulation",
            code="usage-invalid",
        )
    environ = {name: value for name, value in call.environ.items() if not name.startswith("TANDEM_")}
    environ = folders.child_environment(environ)
    # Tests, and what they start, import each other and the examples; what a user starts must not, so the launcher adds no root.
    environ["PYTHONPATH"] = os.pathsep.join([environ["PYTHONPATH"], str(folders.DAGS), str(folders.ROOT)])
    environ["JAVA_TOOL_OPTIONS"] = " ".join(filter(None, [environ.get("JAVA_TOOL_OPTIONS"), _JAVA]))
    # Else each of the many processes that tests start compiles all that it imports.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if all_:
        environ["TANDEM_HYPOTHESIS"] = "all"
        packages.environment(call.environ).provide(call.say, environ=call.environ)
    if mutants:
        code = _program(call, environ, "tests.mutation", arguments or [])
        return Output({"mutants": "failed" if code else "caught"}, code=code)
    if campaign is not None:
        seeded = [] if seed is None else ["--seed", str(seed)]
        code = _program(call, environ, "tests.campaign", [f"{campaign:g}", *seeded, *(arguments or [])])
        return Output({"campaign": "failed" if code else "held"}, code=code)
    chosen = select(arguments or ())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    parts = _PARTS if all_ else {"tests": ("-m", _SLOW, "-n", str(_PROCESSES[0] if chosen else processes(memory)))}
    further = [*(_LONG if all_ else ()), *(arguments or [])]
    whole = {
        "lint": ["-m", "ruff", "check", "--quiet", "."],
        "types": ["-m", "mypy", "--no-error-summary"],
        "imports": ["-c", "import importlinter.cli; importlinter.cli.lint_imports_command()"],
    }
    tests = {name: ["-m", "pytest", *_SPREAD, *_SLOWEST, *selection, *further] for name, selection in parts.items()}
    steps = tests if chosen else {**whole, **tests}
    # In a new checkout each process would compile all tests for itself.
    first = None if chosen or (folders.ROOT / "tests" / "__pycache__").exists() else _collect(environ)
    codes = {}
    seconds = {}
    for name, command in steps.items():
        call.say(f"tandem test: {name}")
        began = time.monotonic()
        if name in parts and first is not None:
            first.wait()
        # With --json stdout holds the document alone.
        done = subprocess.run(  # noqa: S603 - our own tools
            [sys.executable, *command], cwd=folders.ROOT, env=environ, check=False, stdout=sys.stderr if call.json else None
        )
        seconds[name] = round(time.monotonic() - began, 1)
        codes[name] = done.returncode
    tested = any(codes[part] != _NOTHING for part in parts)
    failed = [name for name, code in codes.items() if code and not (tested and name in parts and code == _NOTHING)]
    for name in failed:
        call.say(f"tandem test: {name} failed")
    return Output({"failed": failed, "seconds": seconds}, code=1 if failed else 0)


def _collect(environ: dict[str, str]) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q"]
    return subprocess.Popen(command, cwd=folders.ROOT, env=environ, stdout=subprocess.DEVNULL)  # noqa: S603 - our own tools


def processes(memory: int) -> int:
    """How many processes test at once; `memory` is the machine's, in bytes."""
    return max(count for count in _PROCESSES if count == _PROCESSES[0] or count * _MEMORY <= memory)


def select(arguments: Sequence[str]) -> bool:
    """Whether pytest's arguments name some of the tests, by a path below tests/ or by words."""
    return any(word.startswith("-k") or _is_of_tests(word) for word in arguments)


def _is_of_tests(word: str) -> bool:
    path = (folders.ROOT / word.partition("::")[0]).resolve()
    return path.is_relative_to(folders.ROOT / "tests") and path.exists()


def _program(call: Call, environ: dict[str, str], name: str, arguments: list[str]) -> int:
    """Run a program of our tests and return its exit code; that of a failure if a signal ended it."""
    command = [sys.executable, "-m", name, *arguments]
    done = subprocess.run(  # noqa: S603 - our own tests
        command, cwd=folders.ROOT, env=environ, check=False, stdout=sys.stderr if call.json else None
    )
    return done.returncode if done.returncode in exit_codes.known("test") else exit_codes.FAILED
