"""Wait for what a command of the benchmark does."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.follower import Follower
from tandem.speed import progress
from tandem.views.errors import TandemError

if TYPE_CHECKING:
    import subprocess

_EVERY_S: Final = 0.5


def folds(commits: Follower) -> list[Commit]:
    """The commits of micro-batches, in the order of the log."""
    return [commit for commit in commits.poll() if commit.kind == "fold"]


def counted(commits: Sequence[Commit]) -> int:
    """How many offsets of the log lie below the end of the commits."""
    return sum(commits[-1].end.values()) if commits else 0


def micro_batches(state: Path) -> int:
    """How many micro-batches a speed layer has done, from its own file: a look costs the store no request."""
    found = progress.read(state / "tandem")
    return sum(source.triggers for source in found.sources) if found else 0


def wait_for(process: "subprocess.Popen[bytes]", done: Callable[[], bool], what: str, state: Path, limit_s: float) -> None:
    """Wait for what a command does. Raises TandemError if it ends before, or takes longer than the limit."""
    deadline = time.monotonic() + limit_s
    while not done():
        if (code := process.poll()) is not None:
            raise TandemError(f"a command ended with exit code {code} before {what}; its output is in {state}")
        if time.monotonic() > deadline:
            raise TandemError(f"{what} did not come within {limit_s:.0f} s; the command's output is in {state}")
        time.sleep(_EVERY_S)
