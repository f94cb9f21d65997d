"""Projects are parsed, compiled and loaded by any number of threads at once, and by one place of the code alone."""

import ast
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from tandem.infra.folders import ROOT
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.project import project
from tandem.views.project.python_code import parsed

THREADS = 8
CARDS = ROOT / "examples" / "cards"
SOURCE = (CARDS / "definitions.py").read_bytes()
PACKAGES = ("views", "ledger", "infra", "batch", "speed", "serving", "cli", "bench", "dags")
ALLOWED = {
    "views/project/python_code.py": {"parse", "compile", "exec"},
    "views/fingerprint/module_trees.py": {"getsource"},  # of a whole module, which reads its file
    "cli/ask/pyspark.py": {"run_path"},  # a script that is all that its process runs
}
PARSING = {
    "ast": {"parse", "literal_eval"},
    "inspect": {"getsource", "getsourcelines", "findsource", "getclosurevars"},
    "runpy": {"run_path", "run_module"},
    "codeop": {"compile_command"},
}
BUILTINS = {"compile", "exec", "eval", "__import__"}


@pytest.fixture
def giving_way() -> Iterator[None]:
    """The garbage collector calls Python code, as it does where somebody has finalizers: so a thread stops in the middle."""

    def callback(phase: str, info: object) -> None:
        time.sleep(0)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    gc.callbacks.append(callback)
    try:
        yield
    finally:
        gc.callbacks.remove(callback)
        sys.setswitchinterval(switch)


def in_threads(work: Callable[[], object], *, times: int) -> list[BaseException]:
    """What went wrong where all threads do the same at once, so many times each."""
    began = Barrier(THREADS)

    def one() -> list[BaseException]:
        found: list[BaseException] = []
        began.wait()
        for _ in range(times):
            try:
                work()
            except SystemError as error:
                found.append(error)
        return found

    with ThreadPoolExecutor(THREADS) as threads:
        return [error for some in [threads.submit(one) for _ in range(THREADS)] for error in some.result()]


def test_this_interpreter_parses_what_it_should() -> None:
    assert ast.dump(parsed(SOURCE)) == ast.dump(ast.parse(SOURCE))


def test_threads_parse_at_once(giving_way: None) -> None:
    assert in_threads(lambda: parsed(SOURCE), times=80) == []


def test_what_another_library_parses_meanwhile_disturbs_nothing() -> None:
    """Whenever the collector runs in this thread, another one parses to the end, without the lock."""
    here, threshold = threading.get_ident(), gc.get_threshold()
    with ThreadPoolExecutor(1) as other:

        def callback(phase: str, info: object) -> None:
            if threading.get_ident() == here:
                other.submit(ast.parse, b"a = 1").result()

        gc.callbacks.append(callback)
        gc.set_threshold(50)
        try:
            for _ in range(20):
                parsed(SOURCE)
        finally:
            gc.set_threshold(*threshold)
            gc.callbacks.remove(callback)


def test_threads_load_projects_at_once(giving_way: None) -> None:
    def load() -> None:
        found = project.load(CARDS)
        for view in found.views.values():
            fingerprint(view)

    assert in_threads(load, times=2) == []


def test_the_collector_is_left_as_it_was() -> None:
    assert gc.isenabled()
    parsed(SOURCE)
    assert gc.isenabled()
    with pytest.raises(SyntaxError):
        parsed("def")
    assert gc.isenabled()
    gc.disable()
    try:
        parsed(SOURCE)
        assert not gc.isenabled()
    finally:
        gc.enable()


def calls(file: Path) -> set[str]:
    """What a file of ours uses of all that parses Python."""
    found = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if name in PARSING.get(module, ()):
                found.add(name)
            case ast.Attribute(attr="exec_module" | "load_module" as name):
                found.add(name)
            case ast.ImportFrom(module=module) if module in PARSING:
                found |= {one.name for one in node.names} & PARSING[module or ""]
            case ast.Call(func=ast.Name(id=name)) if name in BUILTINS:
                found.add(name)
    return found


@pytest.mark.slow
def test_nothing_else_parses_python() -> None:
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    assert len(files) > 300
    found = {str(file.relative_to(ROOT)): used for file in files if (used := calls(file))}
    assert found == ALLOWED
