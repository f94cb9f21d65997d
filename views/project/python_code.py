"""Parses and compiles Python code of projects in one thread of the process at a time.

CPython 3.11 before 3.11.8 stores the recursion depth of its conversion of syntax trees once for all threads. If a second thread
parses meanwhile, the first fails with `SystemError: AST constructor recursion depth mismatch` (python/cpython#106905).

During a conversion a thread yields only where the garbage collector calls Python code. So the collector is disabled meanwhile,
and no other thread's parsing, by any library, can interfere.
"""

import ast
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, ModuleType

_ALONE = threading.RLock()


def parsed(source: str | bytes) -> ast.Module:
    """A new syntax tree of a module's text, which the caller may change. Raises SyntaxError, ValueError."""
    with _alone():
        return ast.parse(source)


def run(source: bytes, filename: str, module: ModuleType) -> None:
    """Run a module's text in the module. Raises SyntaxError, ValueError, and whatever the code raises.

    The compiler inherits no `__future__` option of this module, so the same text means the same everywhere.
    """
    with _alone():
        code: CodeType = compile(source, filename, "exec", dont_inherit=True, optimize=0)
    exec(code, module.__dict__)  # noqa: S102  a project is code, and loading it runs it


@contextmanager
def _alone() -> Iterator[None]:
    with _ALONE:
        collecting = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collecting:
                gc.enable()
