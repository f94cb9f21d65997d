"""The pinned jars of infra/locks/jars.lock, in `jars` of the cache folder, where set-up or their first use puts them.

A line of the lock is `SHA-256  group/name-revision.jar`. The group `spark` holds what Spark needs beyond the jars in its own
package, `broker` all of Kafka's server, `jdbc` the driver of PostgreSQL for `adopt`.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from tandem.infra import folders
from tandem.infra.java import jar_fetch, java_home
from tandem.infra.java.jar_fetch import FetchFailed, differing, pinned
from tandem.views.errors import TandemError

__all__ = ["Group", "MissingJar", "differing", "folder", "paths", "pinned"]

Group = Literal["spark", "broker", "jdbc"]
_FIRST_USE: Final = "tandem: fetching the jars of Kafka and Spark, once; this takes a few minutes\n"


class MissingJar(TandemError, code="jar-missing"):
    """A pinned jar is missing and could not be fetched."""


def folder(environ: Mapping[str, str]) -> Path:
    """The folder of the jars."""
    return folders.cache(environ) / "jars"


def paths(group: Group, *, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The files of a group; if one is missing, all are fetched and verified. Raises MissingJar, NoJava.

    Only verified jars are moved into the folder, so the bytes of existing ones are not read again.
    """
    here = folder(environ)
    found = tuple(here / path for path in pinned() if path.startswith(f"{group}/"))
    if not all(path.exists() for path in found):
        _fetch(here, environ)
    return found


def _fetch(here: Path, environ: Mapping[str, str]) -> None:
    """Fetch the jars and, because an installed copy has no set-up, archive Spark's classes."""
    found = java_home.find(environ)
    store = here.parent / "cacerts" if found.home == java_home.packaged_home(environ) else None
    sys.stderr.write(_FIRST_USE)
    try:
        jar_fetch.fetch(here, here.parent, java=found.command, trust_store=store, environ=environ)
    except FetchFailed as error:
        raise MissingJar(str(error)) from error
    except OSError as error:
        raise MissingJar(f"the jars cannot be written to {here}: {error.strerror}; set TANDEM_CACHE to another folder") from error
    if not folders.CHECKOUT:
        # It reports itself what failed; Spark starts without an archive too.
        subprocess.run(
            [sys.executable, "-m", "tandem.infra.spark.cds_archive"],
            env=folders.child_environment(environ),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
        )
