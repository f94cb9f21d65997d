"""The projects that `tandem init` can begin with: a small shop with sample events, and the examples, which generate traffic."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tandem.infra.folders import EXAMPLES
from tandem.views.project import python_code

SHOP: Final = Path(__file__).parent / "template"
DEFAULT: Final = "shop"


@dataclass(frozen=True)
class ProjectTemplate:
    """A folder of files to copy; `sample` says whether it has sample events, else it has a generator."""

    folder: Path
    summary: str
    sample: bool = False

    def files(self) -> dict[str, bytes]:
        """The contents by name; the fixtures for tests are the same in all projects."""
        folders = (SHOP / "conftest.py", *sorted(self.folder.iterdir()))
        return {path.name: path.read_bytes() for path in folders if path.is_file()}


def project_templates() -> Mapping[str, ProjectTemplate]:
    """All templates by name, the default first."""
    shop = ProjectTemplate(SHOP, "orders of a small shop, with sample events and a test", sample=True)
    examples = sorted(file.parent for file in EXAMPLES.glob("*/tandem.toml"))
    return {DEFAULT: shop, **{folder.name: ProjectTemplate(folder, _summary(folder)) for folder in examples}}


def _summary(folder: Path) -> str:
    """The first line of what a project's definitions say of themselves."""
    text = ast.get_docstring(python_code.parsed((folder / "definitions.py").read_bytes())) or folder.name
    return text.splitlines()[0].removesuffix(".")
