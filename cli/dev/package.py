"""`tandem package`: the wheel of this checkout, and the other files of a release."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from tandem.cli.command.call import Call, Output
from tandem.infra import folders
from tandem.infra.files import atomic_files
from tandem.infra.locks.environment import Environment
from tandem.views.errors import TandemError

_LOCK: Final = folders.ROOT / "infra" / "locks" / "build.lock"
_BUILDERS: Final = ("podman", "docker")


def run(
    call: Call,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The wheel's folder.")] = Path("dist"),
    release: Annotated[bool, typer.Option("--release", help="Also write the bill of materials and SHA256SUMS.")] = False,
    image: Annotated[
        str, typer.Option(metavar="NAME", help="With --release: also build the container image, and save it as an archive.")
    ] = "",
) -> Output:
    """Build the wheel with the build backend that infra/locks/build.lock pins. The first build installs that backend.

    `uv tool install` and `pip install` accept the wheel and install the other packages within the bounds of pyproject.toml.

    A release also has a bill of materials (CycloneDX) of all packages and jars that the locks pin, and SHA256SUMS of its files.
    The same commit gives the same wheel and the same bill. An image is built by podman or docker.
    """
    if image and not release:
        raise typer.BadParameter("--image needs --release")
    backend = Environment("the build backend", folders.cache(call.environ) / "build", _LOCK)
    backend.provide(call.say, environ=call.environ)
    out.mkdir(parents=True, exist_ok=True)
    wheel = _wheel(backend, out)
    if not release:
        return Output({"wheel": str(wheel.resolve())}, str(wheel))
    files = [wheel, _bill(backend, wheel)]
    if image:
        files.append(_image(image, wheel, call))
    sums = out / "SHA256SUMS"
    lines = [f"{_digest(file)}  {file.name}" for file in sorted(files)]
    atomic_files.replace(sums, "".join(f"{line}\n" for line in lines).encode())
    written = {"wheel": str(wheel.resolve()), "files": [str(file.resolve()) for file in files], "sums": str(sums.resolve())}
    return Output(written, "\n".join([*lines, str(sums)]))


def _wheel(backend: Environment, out: Path) -> Path:
    before = set(out.glob("*.whl"))
    _command(
        [backend.command("python"), "-I", "-m", "hatchling", "build", "--target", "wheel", "--directory", out.resolve()],
        "the wheel could not be built",
    )
    return max(out.glob("*.whl"), key=lambda path: (path not in before, path.stat().st_mtime_ns))


def _bill(backend: Environment, wheel: Path) -> Path:
    version = wheel.name.split("-")[1]
    bill = wheel.parent / f"tandem-{version}.cdx.json"
    script = folders.ROOT / "cli" / "dev" / "sbom.py"
    _command(
        [backend.command("python"), "-I", script, folders.ROOT, version, _time(), bill.resolve()],
        "the bill of materials could not be written",
    )
    return bill


def _image(name: str, wheel: Path, call: Call) -> Path:
    path = call.environ.get("PATH", os.defpath)
    builder = next(filter(None, (shutil.which(each, path=path) for each in _BUILDERS)), None)
    if builder is None:
        raise TandemError(f"an image needs {' or '.join(_BUILDERS)}, and neither is on the PATH", code="packages-missing")
    _command([builder, "build", "--target", "tandem", "--tag", name, "."], "the image could not be built")
    archive = wheel.parent / f"tandem-{wheel.name.split('-')[1]}.image.tar"
    archive.unlink(missing_ok=True)
    _command([builder, "save", "--output", archive.resolve(), name], "the image could not be saved")
    return archive


def _time() -> str:
    """The time of the commit in Unix seconds; SOURCE_DATE_EPOCH overrides it."""
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        return epoch
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=folders.ROOT, capture_output=True, text=True, check=False)  # noqa: S607 - a maintainer's git
    if done.returncode:
        raise TandemError("this checkout has no history: set SOURCE_DATE_EPOCH to the time of the release, in Unix seconds")
    return done.stdout.strip()


def _command(words: list[str | Path], failure: str) -> None:
    done = subprocess.run(words, cwd=folders.ROOT, stdout=sys.stderr, check=False)  # noqa: S603 - pinned packages, and a builder
    if done.returncode:
        raise TandemError(f"{failure}; the lines above give the reason")


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
