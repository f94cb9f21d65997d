"""The version of Tandem, which `tandem --version` prints."""

from tandem.infra.folders import CHECKOUT, ROOT


def version() -> str:
    """The version of the checkout, or of the installed copy."""
    if CHECKOUT:
        import tomllib  # noqa: PLC0415 - each of the two takes time to import

        return str(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"])
    from importlib import metadata  # noqa: PLC0415 - see above

    return metadata.version("tandem")
