"""The projects that `tandem init` can begin with: a small shop with sample events, in Python or SQL, and the examples."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tandem.infra.folders import EXAMPLES
from tandem.views.project import python_code

SHOP: Final = Path(__file__).parent / "template"
_SHOP_IN_SQL: Final = Path(__file__).parent / "template_sql"
DEFAULT: Final = "shop"


@dataclass(frozen=True)
class ProjectTemplate:
    """A folder of files to copy, with some of the shop's; `sample` says whether it has sample events, else it has a generator."""

    folder: Path
    summary: str
    sample: bool = False
    of_shop: tuple[str, ...] = ("conftest.py",)

    def files(self) -> dict[str, bytes]:
        """The contents by name."""
        folders = (*(SHOP / name for name in self.of_shop), *sorted(self.folder.iterdir()))
        return {path.name: path.read_bytes() for path in folders if path.is_file()}


def project_templates() -> Mapping[str, ProjectTemplate]:
    """All templates by name, the default first."""
    shop = ProjectTemplate(SHOP, "orders of a small shop, with sample events and a test", sample=True)
    in_sql = ProjectTemplate(
        _SHOP_IN_SQL, "the shop in SQL: definitions.sql and the same events", True, ("orders.jsonl", "tandem.toml")
    )
    examples = sorted(file.parent for file in EXAMPLES.glob("*/tandem.toml"))
    return {DEFAULT: shop, "sql": in_sql, **{folder.name: ProjectTemplate(folder, _summary(folder)) for folder in examples}}


def _summary(folder: Path) -> str:
    """The first line of what a project's definitions say of themselves."""
    text = ast.get_docstring(python_code.parsed((folder / "definitions.py").read_bytes())) or folder.name
    return text.splitlines()[0].removesuffix(".")
