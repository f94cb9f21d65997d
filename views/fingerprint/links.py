"""Global names in code, replaced by what they refer to. So the way in which code imports what it uses does not count.

A link to a definition is written as the definition's label, which is known only when all code is found. Until then a link is a
node without a text; `write` sets the text.
"""

import ast
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final

from tandem.views.fingerprint.references import Defined, Foreign, Reference, References, Referent, Unknown, Whole

WHOLE: Final = "*"
"""The name that stands for everything in a module."""


@dataclass(frozen=True)
class PendingLabel:
    """A name in a tree that `write` replaces by the label of a definition, within `text`."""

    node: ast.Name
    definition: Defined
    text: str

    def write(self, labels: Mapping[Defined, str]) -> None:
        """Set the text of the name."""
        self.node.id = self.text.format(labels.get(self.definition, self.definition.name))


@dataclass(frozen=True)
class Links:
    """The links of one tree: what its names refer to, and the names without a label yet."""

    referents: list[Referent] = field(default_factory=list)
    waiting: list[PendingLabel] = field(default_factory=list)


def linked(form: ast.AST, module: str, references: References, ambiguous: Container[str]) -> tuple[ast.AST, Links]:
    """A tree in normal form from a module, with links in place of global names, and the links.

    A name that is `ambiguous` may be an attribute of a class around it instead.
    """
    linker = _Linker(references, module, ambiguous)
    return linker.visit(form), linker.links


class _Linker(ast.NodeTransformer):
    """Replaces the global names that a tree reads, with the attributes that lead to a definition."""

    def __init__(self, references: References, module: str, ambiguous: Container[str]) -> None:
        self.references = references
        self.module = module
        self.ambiguous = ambiguous
        self.links = Links()

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        path: list[str] = []
        below: ast.expr = node
        while isinstance(below, ast.Attribute):
            path, below = [below.attr, *path], below.value
        if not isinstance(below, ast.Name):
            return self.generic_visit(node)
        return self._replaced(node, below, path)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._replaced(node, node, [])

    def _replaced(self, node: ast.expr, first: ast.Name, attributes: list[str]) -> ast.AST:
        if first.id.startswith("%"):
            return node
        path = (first.id, *attributes)
        reference = self.references.resolve(self.module, path)
        self.links.referents.extend((reference.referent, *reference.others))
        link = self._link(reference, path)
        return node if link is None or (first is node and not isinstance(first.ctx, ast.Load)) else link

    def _link(self, reference: Reference, path: tuple[str, ...]) -> ast.expr | None:
        """The node that replaces a path; None to keep the path as written."""
        rest = reference.rest
        text = f"{path[0]} or {{}}" if path[0] in self.ambiguous else "{}"
        node = ast.Name("")
        match reference.referent:
            case Defined() as definition:
                self.links.waiting.append(PendingLabel(node, definition, f"{text}@"))
            case Whole(target):
                self.links.waiting.append(PendingLabel(node, Defined(target, WHOLE), f"{text}@"))
            case Foreign((root, *below)):
                node.id, rest = text.format(f"{root} imported"), (*below, *rest)
            case Unknown(stars):
                if not stars:
                    return None
                node.id = text.format(f"{path[len(path) - len(rest) - 1]} of {', '.join(stars)}")
        link: ast.expr = node
        for attribute in rest:
            link = ast.Attribute(link, attribute)
        return link
