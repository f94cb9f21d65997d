"""The syntax trees of a project's modules, and searches in them; no code runs."""

import ast
import inspect
import sys
from collections.abc import Iterator
from types import FunctionType

from tandem.views.errors import DefinitionError
from tandem.views.project.isolated_import import ProjectLoader
from tandem.views.project.python_code import parsed

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
ImportStatement = ast.Import | ast.ImportFrom


class ModuleTrees:
    """The syntax trees of a project's modules."""

    def __init__(self, function: FunctionType) -> None:
        self.loader = function.__globals__.get("__loader__")
        self.own = function.__module__
        self.trees: dict[str, ast.Module] = {}

    def tree(self, module: str) -> ast.Module | None:
        """The module's tree; None for a module outside the project."""
        if module not in self.trees:
            source = self._source(module)
            if source is None:
                return None
            self.trees[module] = _one_name(parsed(source))
        return self.trees[module]

    def file(self, module: str) -> str:
        """Where the module's text is, within its project."""
        path = self.loader.path_of(module) if isinstance(self.loader, ProjectLoader) else None
        return path or f"{module.replace('.', '/')}.py"

    def _source(self, module: str) -> str | None:
        if isinstance(self.loader, ProjectLoader):
            return self.loader.get_source(module) if self.loader.path_of(module) else None
        if module != self.own:
            return None  # an event type outside a loaded project: its project is its own module
        try:
            return inspect.getsource(sys.modules[module])
        except (KeyError, OSError, TypeError) as error:
            raise DefinitionError(f"the source of module {module!r} cannot be read, so no fingerprint can cover it") from error

    def absolute(self, module: str, statement: ast.ImportFrom) -> str:
        """The absolute name of the module in a `from ... import` of `module`."""
        if not statement.level:
            return statement.module or ""
        package = module.split(".")
        loader = self.loader
        is_package = isinstance(loader, ProjectLoader) and (loader.path_of(module) or "").endswith("/__init__.py")
        above = package[: len(package) - statement.level + is_package]
        return ".".join([*above, *([statement.module] if statement.module else [])])


def _one_name(tree: ast.Module) -> ast.Module:
    """The tree with imports from `tandem` replaced by imports from `views`, which are the same things."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and node.module == "tandem":
            node.module = "views"
    return tree


def imports(tree: ast.Module) -> Iterator[ImportStatement]:
    """Every import of a module, inside functions and classes, too."""
    return (node for node in ast.walk(tree) if isinstance(node, ImportStatement))


def within(tree: ast.AST, qualified_name: str) -> ast.AST | None:
    """The definition with a qualified name."""
    for name in qualified_name.split("."):
        if name != "<locals>":
            found = next((node for node in ast.walk(tree) if isinstance(node, Definition) and node.name == name), None)
            if found is None:
                return None
            tree = found
    return tree


def bound(statement: ast.stmt) -> set[str]:
    """The names to which a statement, or one inside it that runs with it, gives a value."""
    names: set[str] = set()
    for node in _running(statement):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.alias():
                names.add(node.asname or node.name.partition(".")[0])
    return names


def concerned(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module binds, or whose values it may change: `TABLE["a"] = 1`, `TABLE.update(...)`."""
    names = bound(statement)
    for node in _running(statement):
        match node:
            case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Expr():
                names |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names


def _running(statement: ast.AST) -> Iterator[ast.AST]:
    """A statement's nodes that run when it does: not the bodies of functions and classes, whose names are their own."""
    yield statement
    if not isinstance(statement, Definition | ast.Lambda):
        for node in ast.iter_child_nodes(statement):
            yield from _running(node)


def is_field(statement: ast.stmt) -> bool:
    """Whether a statement of an event type declares a field; `event_meaning` covers fields by their types."""
    return isinstance(statement, ast.AnnAssign) and "ClassVar" not in ast.unparse(statement.annotation)
