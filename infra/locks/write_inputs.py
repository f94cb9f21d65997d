"""Writes the inputs of the locks from pyproject.toml, which lists the dependencies: `python -m tandem.infra.locks.write_inputs`.

A lock is compiled from its input by the command in the input's first lines, and keeps its versions as far as the input allows.
"""

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent
_HEAD: Final = """\
# Written from pyproject.toml by `python -m tandem.infra.locks.write_inputs`. The lock is compiled by
#   uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \\
#     infra/locks/{name}.in -o infra/locks/{name}.lock
"""


def inputs(pyproject: Mapping[str, Any]) -> dict[str, list[str]]:
    """The requirements of each lock, by the lock's name, in the order of pyproject.toml."""
    project, groups = pyproject["project"], pyproject["dependency-groups"]
    return {
        "requirements": [*project["dependencies"], *groups["dev"]],
        # What the fetch of the jars needs: Ivy is inside PySpark. Installed first, so that both arrive together.
        "spark": [line for line in project["dependencies"] if line.startswith("pyspark==")],
        "java": project["optional-dependencies"]["java"],
        "airflow": groups["airflow"],
        "docs": groups["docs"],
        "uv": groups["set-up"],
        "build": [*pyproject["build-system"]["requires"], *groups["release"]],
    }


def text(name: str, lines: list[str]) -> str:
    """The file `infra/locks/NAME.in`."""
    return _HEAD.format(name=name) + "".join(f"{line}\n" for line in lines)


def main() -> None:
    """Write the files."""
    document = tomllib.loads((FOLDER.parent.parent / "pyproject.toml").read_text("utf-8"))
    for name, lines in inputs(document).items():
        (FOLDER / f"{name}.in").write_text(text(name, lines), "utf-8")
        sys.stdout.write(f"infra/locks/{name}.in\n")


if __name__ == "__main__":
    main()
