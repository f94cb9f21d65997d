"""`tandem package`: the wheel of this checkout."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from tandem.cli.command.call import Call, Output
from tandem.infra import folders
from tandem.infra.locks.environment import Environment
from tandem.views.errors import TandemError

_LOCK: Final = folders.ROOT / "infra" / "locks" / "build.lock"


def run(
    call: Call,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The wheel's folder.")] = Path("dist"),
) -> Output:
    """Build the wheel with the build backend that infra/locks/build.lock pins. The first build installs that backend.

    `uv tool install` and `pip install` accept the wheel and install the other packages within the bounds of pyproject.toml.
    """
    backend = Environment("the build backend", folders.cache(call.environ) / "build", _LOCK)
    backend.provide(call.say, environ=call.environ)
    before = set(out.glob("*.whl"))
    done = subprocess.run(  # noqa: S603 - the pinned build backend
        [backend.command("python"), "-I", "-m", "hatchling", "build", "--target", "wheel", "--directory", out.resolve()],
        cwd=folders.ROOT,
        stdout=sys.stderr,
        check=False,
    )
    if done.returncode:
        raise TandemError("the wheel could not be built; the lines above give the reason")
    built = max(out.glob("*.whl"), key=lambda path: (path not in before, path.stat().st_mtime_ns))
    return Output({"wheel": str(built.resolve())}, str(built))
