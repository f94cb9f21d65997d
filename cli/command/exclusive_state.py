"""State folders that a command has to itself, apart from every project's: for the demo and for benchmarks."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from infra import folders
from infra.files import file_lock
from views.errors import TandemError


def own_state(environ: Mapping[str, str], command: str, name: str) -> Path:
    """`COMMAND/NAME` in the platform's own state folder."""
    return folders.state(environ) / command / name


@contextmanager
def emptied(state: Path, *, before: Callable[[], object]) -> Iterator[None]:
    """Have the folder empty and to oneself; `before` is called once nobody else has it and before it is wiped.

    Raises TandemError if another process has it.
    """
    state.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as lock:
        try:
            lock.enter_context(file_lock.held(state.with_name(f"{state.name}.lock"), wait=False))
        except BlockingIOError:
            raise TandemError(f"another `tandem {state.parent.name}` is running in {state}; stop it first") from None
        before()
        shutil.rmtree(state, ignore_errors=True)
        yield
