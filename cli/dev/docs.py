"""`tandem docs`: the documentation as a site of files, which works from a folder and from a server on loopback."""

import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.dev.site.pages import write_pages
from tandem.infra import folders
from tandem.infra.locks.environment import Environment
from tandem.views.errors import TandemError

_LOCK: Final = folders.ROOT / "infra" / "locks" / "docs.lock"


def run(
    call: Call,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The site's folder; what it has is replaced.")] = Path("dist/docs"),
) -> Output:
    """Build the documentation as a site with navigation and search, by the packages that infra/locks/docs.lock pins.

    The first build installs them; later ones need no network. A dead link, a dead anchor or a page outside the navigation ends
    the build. Open index.html of the folder in a browser: the site loads nothing from another host.
    """
    if out.exists() and any(out.iterdir()) and not (out / "search" / "search_index.json").exists():
        raise TandemError(f"{out} has files but no earlier site; name an empty folder", code="usage-invalid")
    builder = Environment("the site builder", folders.cache(call.environ) / "docs", _LOCK)
    builder.provide(call.say, environ=call.environ)
    with tempfile.TemporaryDirectory(prefix="tandem-docs-") as staged:
        write_pages(folders.ROOT, Path(staged))
        done = subprocess.run(  # noqa: S603 - the pinned builder
            [builder.command("python"), "-I", "-m", "mkdocs", "build", "--strict", "--site-dir", out.resolve()],
            cwd=staged,
            env={"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        for line in f"{done.stdout}{done.stderr}".splitlines():
            if line and not line.startswith("INFO"):
                call.say(line)
        raise TandemError("the site could not be built; the lines above name the pages")
    index = (out / "index.html").resolve()
    return Output({"site": str(index)}, str(index))
