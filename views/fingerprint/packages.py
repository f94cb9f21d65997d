"""Packages that code uses: of a package outside the project, only the installed version counts."""

import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, version

from tandem.views.fingerprint.meaning import Meaning
from tandem.views.project.isolated_import import PLATFORM


def counted_package(module: str) -> str | None:
    """The package of a module; None for Python's own modules and Tandem, whose versions do not count here."""
    root = module.split(".", maxsplit=1)[0]
    return root if root and root not in sys.stdlib_module_names and root not in PLATFORM else None


def version_of(package: str) -> Meaning:
    """A package as a part: the name of its module, and its installed version."""
    installed = _version(package)
    return Meaning(f"package {package}", installed, installed)


def _version(root: str) -> str:
    try:
        return version(root)
    except PackageNotFoundError:
        names = packages_distributions().get(root, [])  # slow: reads every package's list of files
        return version(names[0]) if names else "unknown"
