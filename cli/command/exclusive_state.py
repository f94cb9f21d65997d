"""State folders of the demo and of benchmarks: separate from every project's, each used by one command at a time."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tandem.infra import folders
from tandem.infra.files import file_lock
from tandem.views.errors import TandemError


def own_state(environ: Mapping[str, str], command: str, name: str) -> Path:
    """`COMMAND/NAME` in the platform's own state folder."""
    return folders.state(environ) / command / name


@contextmanager
def emptied(state: Path, *, before: Callable[[], object]) -> Iterator[None]:
    """Lock the folder and empty it; `before` is called between the two.

    Raises TandemError if another process has it.
    """
    state.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as lock:
        try:
            lock.enter_context(file_lock.held(state.with_name(f"{state.name}.lock"), wait=False))
        except BlockingIOError:
            raise TandemError(
                f"another `tandem {state.parent.name}` is running in {state}; stop it first", code="run-active"
            ) from None
        before()
        shutil.rmtree(state, ignore_errors=True)
        yield
