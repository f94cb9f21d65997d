"""The platform's folders: its code, which is only read, and its cache and its state, which are written.

A checkout, which has the launcher `tandem` at its root, writes cache and state to its own `.tandem`. An installed copy writes
them to the user's home, by the XDG base directory specification, and never to the folder of its code.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tandem.views.errors import TandemError

ROOT: Final = Path(__file__).resolve().parent.parent
"""The folder of the platform's packages: the checkout, or the installed package `tandem`."""
CHECKOUT: Final = (ROOT / "tandem").is_file()
IMPORTED: Final = ROOT / "src" if CHECKOUT else ROOT.parent
"""The folder from which Python imports the package `tandem`."""
EXAMPLES: Final = ROOT / "examples"
DAGS: Final = ROOT / "dags"
CACHE_VARIABLE: Final = "TANDEM_CACHE"
STATE_VARIABLE: Final = "TANDEM_STATE"


def tandem_version() -> str:
    """The version of the checkout, or of the installed copy."""
    if CHECKOUT:
        import tomllib  # noqa: PLC0415 - each of the two takes time to import

        return str(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"])
    from importlib import metadata  # noqa: PLC0415 - see above

    return metadata.version("tandem")


def cache(environ: Mapping[str, str]) -> Path:
    """The cache folder: jars, Airflow's packages, a packaged Java. All of it can be fetched or built again."""
    return _own(environ, CACHE_VARIABLE, "XDG_CACHE_HOME", ".cache")


def state(environ: Mapping[str, str]) -> Path:
    """The folder of state that belongs to no project of the user's: demos, benchmarks, the examples of an installed copy."""
    return _own(environ, STATE_VARIABLE, "XDG_STATE_HOME", ".local/state")


def _own(environ: Mapping[str, str], variable: str, base: str, default: str) -> Path:
    if named := environ.get(variable):
        return Path(named).expanduser().resolve()
    if CHECKOUT:
        return ROOT / ".tandem"
    # A relative path is invalid there: https://specifications.freedesktop.org/basedir-spec/latest/
    given = Path(environ.get(base, ""))
    return (given if given.is_absolute() else Path(environ.get("HOME") or Path.home()) / default) / "tandem"


def state_of(project: Path, configured: str, environ: Mapping[str, str]) -> Path:
    """The state folder of a project: as configured, in the project's folder; of an example of an installed copy, in `state`."""
    if not CHECKOUT and project.is_relative_to(ROOT) and not environ.get(STATE_VARIABLE):
        return state(environ) / "examples" / project.name
    return (project / Path(configured).expanduser()).resolve()


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child process that is to import this copy of the platform, whatever lies in the current folder."""
    given = [folder for folder in environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    # The interpreter finds an installed copy itself; its folder before the standard library would hide modules of that.
    own = [str(IMPORTED)] if CHECKOUT and str(IMPORTED) not in given else []
    roots = {"PYTHONPATH": os.pathsep.join([*own, *given])} if own or given else {}
    return {**environ, **roots, "PYTHONSAFEPATH": "1"}


def command(environ: Mapping[str, str]) -> Path:
    """The executable `tandem` of this copy; raises TandemError where an installed copy has none."""
    if CHECKOUT:
        return ROOT / "tandem"
    beside = Path(sys.executable).parent / "tandem"
    found = str(beside) if beside.exists() else shutil.which("tandem", path=environ.get("PATH", os.defpath))
    if found is None:
        raise TandemError(f"no command `tandem` beside {sys.executable} or on the PATH; reinstall Tandem with its script")
    return Path(found)
