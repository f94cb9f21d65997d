"""The version of Tandem, which `tandem --version` prints."""

import importlib.metadata
import tomllib

from infra.folders import CHECKOUT, ROOT


def version() -> str:
    """The version of the checkout, or of the installed copy."""
    if CHECKOUT:
        return str(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"])
    return importlib.metadata.version("tandem")
