"""The pinned jars, fetched through the Ivy inside PySpark and verified against infra/locks/jars.lock.

Set-up runs this while most packages are being installed, so it imports only the standard library and its neighbours:
`python -m tandem.infra.java.jar_fetch FOLDER SCRATCH JAVA [TRUST_STORE]`. An installed copy calls `fetch` at first use.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tandem.infra.files import file_lock

LISTS: Final = Path(__file__).resolve().parent.parent / "locks"
_WRONG: Final = re.compile(r"exception|error|not found", re.IGNORECASE)


class FetchFailed(Exception):
    """The jars could not be fetched, or are not the pinned ones."""


def pinned(lists: Path = LISTS) -> dict[str, str]:
    """The SHA-256 of every pinned jar by its path below the jars' folder, in the lock's order."""
    rows = (line.split() for line in (lists / "jars.lock").read_text("ascii").splitlines())
    return {path: sha256 for sha256, path in rows}


def differing(folder: Path, lists: Path = LISTS) -> tuple[str, ...]:
    """The pinned jars that are missing from the folder or whose bytes are not the pinned ones."""
    return tuple(path for path, sha256 in pinned(lists).items() if _sha256(folder / path) != sha256)


def fetch(
    folder: Path,
    scratch: Path,
    *,
    java: str,
    trust_store: Path | None,
    environ: Mapping[str, str],
    lists: Path = LISTS,
) -> None:
    """Put every pinned jar into the folder, unless all are there. Jars are moved there only after all have been verified.

    One process at a time: others wait, then find the jars. `scratch` keeps Ivy's own cache and log. With a `trust_store` to
    write, the JVM trusts what this Python trusts. `lists` has ivy.xml and jars.lock.

    Raises FetchFailed, and OSError where a folder cannot be written.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    with file_lock.held(scratch / "jars.fetching"):
        if not differing(folder, lists):
            return
        new = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        _retrieve(lists / "ivy.xml", new, scratch, java=java, trust_store=trust_store, environ=environ)
        if wrong := differing(new, lists):
            shutil.rmtree(new)
            raise FetchFailed(
                f"a fetched jar differs from {lists / 'jars.lock'}: {wrong[0]}; remove {scratch / 'ivy'} and run this again"
            )
        for path in pinned(lists):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (new / path).replace(folder / path)
        shutil.rmtree(new)


def _retrieve(ivy: Path, new: Path, scratch: Path, *, java: str, trust_store: Path | None, environ: Mapping[str, str]) -> None:
    from tandem.infra.java import network  # noqa: PLC0415 - only a fetch needs urllib

    options = network.proxy_options() + (network.trust_options(trust_store) if trust_store else [])
    settings = environ.get("TANDEM_IVY_SETTINGS") or LISTS / "ivysettings.xml"
    command = [java, *options, "-cp", str(_ivy()), "org.apache.ivy.Main", "-ivy", str(ivy)]
    command += ["-settings", str(settings), "-cache", str(scratch / "ivy")]
    command += ["-retrieve", f"{new}/[conf]/[artifact]-[revision].[ext]"]
    log = scratch / "ivy.log"
    with log.open("wb") as file:
        done = subprocess.run(  # noqa: S603 - the Java that was found, with arguments of our own
            command, check=False, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=dict(environ)
        )
    if done.returncode:
        lines = log.read_text("utf-8", "replace").splitlines()
        said = next((line.strip() for line in lines if _WRONG.search(line)), "Ivy gave no reason")
        raise FetchFailed(f"the jars could not be fetched: {said}; see {log}")


def _ivy() -> Path:
    found = importlib.util.find_spec("pyspark")
    folders = found.submodule_search_locations if found else None
    for folder in folders or ():
        for jar in Path(folder).glob("jars/ivy-*.jar"):
            return jar
    raise FetchFailed("the jars could not be fetched: PySpark, which holds Ivy, is not installed")


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


if __name__ == "__main__":
    to, scratch, java, *store = sys.argv[1:]
    try:
        fetch(Path(to), Path(scratch), java=java, trust_store=Path(store[0]) if store else None, environ=os.environ)
    except (FetchFailed, OSError) as error:
        sys.exit(f"tandem: {error}")
