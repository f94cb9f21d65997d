"""Python code of projects, parsed and compiled by one thread of the process at a time.

CPython 3.11 before 3.11.8 keeps the depth of its conversion of syntax trees in one place for all threads: a second thread that
parses meanwhile ends the first with `SystemError: AST constructor recursion depth mismatch` (python/cpython#106905). A thread
gives way in the middle of a conversion only where the garbage collector calls Python code, so the collector rests meanwhile:
then no other thread's parsing, of whatever library, disturbs this one.
"""

import ast
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, ModuleType

_ALONE = threading.RLock()


def parsed(source: str | bytes) -> ast.Module:
    """The syntax tree of a module's text, the caller's own to change. Raises SyntaxError, ValueError."""
    with _alone():
        return ast.parse(source)


def run(source: bytes, filename: str, module: ModuleType) -> None:
    """Run a module's text in the module. Raises SyntaxError, ValueError, and whatever the code raises.

    The same text means the same everywhere: no option of this module, or of the interpreter, reaches the code.
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
