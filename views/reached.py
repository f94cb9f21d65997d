"""The code that an event type or a measure reaches in its project, found in syntax trees without running anything.

From the methods that decoding or folding calls it follows names through modules of the project: functions, classes, constants and
the statements that fill them. Of what is not the project's, only the package's version counts. Where a name could mean
more than one thing, all of them are taken: a fingerprint that changes too often costs a recompute, one that does not
change when a number does would be wrong.
"""

import ast
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from types import FunctionType
from typing import Any

from views.errors import DefinitionError
from views.meaning import Meaning
from views.module_trees import ImportStatement, ModuleTrees, bound, concerned, imported_modules, imports, is_field, paths, within
from views.modules import PLATFORM, ProjectLoader
from views.normal_form import normal_form
from views.tree_text import text

Index = dict[str, list[ast.stmt]]
"""Statements by the names that they give a value."""


def reached(types: Sequence[type], called: Iterable[str] = ("__post_init__", "_missing_")) -> dict[str, Meaning]:
    """The code that runs when the attributes `called` of these classes are used, by module and name.

    Each is a function, a constant or whatever else gives a name its value; it means its text in normal form.
    Those of structs and enums are what decoding uses.
    Raises DefinitionError if a method's source cannot be read.
    """
    methods = [(ancestor, method) for one in types for ancestor in one.__mro__ for method in _methods(ancestor)]
    home = types[0].__module__
    own = [method for _, method in methods if method.__module__ == home or _loaded_by_project(method)]
    if not own:
        return {}
    search = _Search(ModuleTrees(own[0]))
    for ancestor, method in methods:
        if method in own:
            search.add_class(ancestor, method)
        else:
            search.add_package(method.__module__)
    for one in types:
        for ancestor in one.__mro__:
            search.add_class(ancestor)
    search.words.update(called)
    return search.everything()


def reached_by_function(function: FunctionType) -> dict[str, Meaning]:
    """The same for one function of the project, such as a default's factory."""
    search = _Search(ModuleTrees(function))
    search.add_function(function)
    return search.everything()


def _loaded_by_project(function: FunctionType) -> bool:
    return isinstance(function.__globals__.get("__loader__"), ProjectLoader)


def _methods(owner: type) -> list[FunctionType]:
    values = [getattr(value, "__func__", getattr(value, "fget", value)) for value in vars(owner).values()]
    return [value for value in values if isinstance(value, FunctionType)]


def _index(statements: Iterable[ast.stmt], names: Callable[[ast.stmt], set[str]] = bound) -> Index:
    index: Index = {}
    for statement in statements:
        for name in names(statement):
            index.setdefault(name, []).append(statement)
    return index


class _Search:
    """What was found so far, and what is still to be looked at."""

    def __init__(self, trees: ModuleTrees) -> None:
        self.trees = trees
        self.found: dict[str, Meaning] = {}
        self.looked_up: set[str] = set()  # modules may import names from one another in a circle
        self.words: set[str] = set()  # attributes and texts in the code found: any may name an attribute of a class below
        self.classes: dict[tuple[str, str], Index] = {}
        self.modules: dict[str, Index] = {}
        self.imported: dict[str, dict[str, str]] = {}  # by module and name, the project's modules that it imports

    def add_class(self, owner: type, method: FunctionType | None = None) -> None:
        """Let the class's attributes be found; if only a method is known, it may have been made by no class statement."""
        tree = self.trees.tree(owner.__module__)
        found = within(tree, owner.__qualname__) if tree is not None else None
        if isinstance(found, ast.ClassDef):
            self.classes[owner.__module__, owner.__qualname__] = _index(one for one in found.body if not is_field(one))
            self._changed(owner.__module__, owner.__qualname__)
        elif method is not None:
            self.add_function(method)

    def _changed(self, module: str, name: str) -> None:
        """Take what a module does to a class after it is made, such as `C.factor = 2`."""
        tree = self.trees.tree(module)
        statements = _index(tree.body if tree is not None else (), concerned).get(name, [])
        self._take(
            module, f"change of {name}", [one for one in statements if not isinstance(one, ast.ClassDef | ImportStatement)]
        )

    def add_function(self, function: FunctionType) -> None:
        """Take a function of a module; a lambda is known by its line."""
        module, name = function.__module__, function.__qualname__.partition(".")[0]
        tree = self.trees.tree(module)
        if tree is None:
            self.add_package(module)
        elif function.__name__ == "<lambda>":
            line = function.__code__.co_firstlineno
            lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == line]
            self._take(module, f"line {len(self.found)}", lambdas)
        else:
            self._refuse_closure(tree, function)
            self._name(module, name)

    def _refuse_closure(self, tree: ast.Module, function: FunctionType) -> None:
        """Of a function that another one made, what it holds is not in the code; of a decorated one, the decorator is."""
        decorated = any(
            isinstance(one, ast.FunctionDef) and one.name == function.__name__ and one.decorator_list for one in tree.body
        )
        if "<locals>" in function.__code__.co_qualname and not decorated:
            raise DefinitionError(
                f"{function.__name__} is made by {function.__code__.co_qualname.partition('.')[0]}, so its code does not say all "
                "that it does; define it in a module by its name"
            )

    def everything(self) -> dict[str, Meaning]:
        """All that is reached, when there is nothing more to find, in order of name."""
        before = -1
        while before < len(self.found):
            before = len(self.found)
            for (module, qualified), attributes in self.classes.items():
                for word in sorted(self.words & attributes.keys()):
                    self._take(module, f"{qualified}.{word}", attributes[word])
        return dict(sorted(self.found.items()))

    def _name(self, module: str, name: str) -> None:
        """Take what a module of the project binds to a name, or what it imports under it."""
        tree = self.trees.tree(module)
        if tree is None or f"{module}:{name}" in self.looked_up:
            return
        self.looked_up.add(f"{module}:{name}")
        if module not in self.modules:
            self.modules[module] = _index(tree.body, concerned)
        statements = self.modules[module].get(name, [])
        imports = [node for one in statements for node in ast.walk(one) if isinstance(node, ImportStatement)]
        for one in tree.body:
            if isinstance(one, ast.ImportFrom) and one.names[0].name == "*":
                self._imported(module, one, name)
        self._take(module, name, [one for one in statements if not isinstance(one, ImportStatement)])
        for node in imports:
            self._imported(module, node, name)

    def _imported(self, module: str, node: ImportStatement, name: str) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if (alias.asname or alias.name.split(".")[0]) == name and self.trees.tree(alias.name) is None:
                    self.add_package(alias.name)
            return
        origin = self.trees.absolute(module, node)
        for alias in node.names:
            if alias.name == "*" and self.trees.tree(origin) is not None:
                self._name(origin, name)
            elif (alias.asname or alias.name) == name:
                if self.trees.tree(origin) is None and self.trees.tree(f"{origin}.{alias.name}") is None:
                    self.add_package(origin)
                else:
                    self._name(origin, alias.name)

    def _take(self, module: str, name: str, statements: list[Any]) -> None:
        """Add statements in normal form, and follow the names in them."""
        if not statements or f"{module}:{name}" in self.found:
            return
        forms = [normal_form(one) for one in statements]
        called = f"{_kind(name, statements[0])} in {self.trees.file(module)}:{statements[0].lineno}"
        self.found[f"{module}:{name}"] = Meaning(called, "\n".join(text(form) for form in forms))
        for form in forms:
            for node in ast.walk(form):
                if isinstance(node, ast.Attribute):
                    self.words.add(node.attr)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    self.words.add(node.value)
                elif isinstance(node, ImportStatement):
                    for target in imported_modules(self.trees, module, node):
                        if self.trees.tree(target) is None:
                            self.add_package(target)
            for path in paths(form):
                self._follow(module, path)

    def _follow(self, module: str, path: list[str]) -> None:
        """Follow `name.attribute...`: into a module of the project if the name is one, else to what the name is bound to."""
        target = self._module_bound(module, path[0])
        if target is None:
            self._name(module, path[0])
            return
        rest = path[1:]
        while rest and self.trees.tree(f"{target}.{rest[0]}") is not None:
            target, rest = f"{target}.{rest[0]}", rest[1:]
        if rest:
            self._name(target, rest[0])
        elif (tree := self.trees.tree(target)) is not None:
            # The module itself is handed on: anything in it may be used.
            self._take(target, "*", [one for one in tree.body if not isinstance(one, ImportStatement)])

    def _module_bound(self, module: str, name: str) -> str | None:
        """The module of the project that an import binds to a name, if one does."""
        if module not in self.imported:
            tree, self.imported[module] = self.trees.tree(module), {}
            for node in imports(tree) if tree is not None else ():
                for alias in node.names:
                    if isinstance(node, ast.ImportFrom):
                        bound, target = alias.asname or alias.name, f"{self.trees.absolute(module, node)}.{alias.name}"
                    else:
                        target = alias.name if alias.asname else alias.name.partition(".")[0]
                        bound = alias.asname or target
                    if self.trees.tree(target) is not None:
                        self.imported[module].setdefault(bound, target)
        return self.imported[module].get(name)

    def add_package(self, module: str) -> None:
        """Note the version of a package that is not the project's; Python's own and Tandem's are pinned elsewhere."""
        root = module.split(".", maxsplit=1)[0]
        if root and root not in sys.stdlib_module_names and root not in PLATFORM:
            self.found.setdefault(f"{root}==", version_of(root))


def version_of(package: str) -> Meaning:
    """A package by its installed version; the name is that of its module."""
    installed = _version(package)
    return Meaning(f"package {package}", installed, installed)


def _version(root: str) -> str:
    try:
        return version(root)
    except PackageNotFoundError:
        names = packages_distributions().get(root, [])  # slow: reads every package's list of files
        return version(names[0]) if names else "unknown"


def _kind(name: str, statement: ast.AST) -> str:
    """What a person calls the code that is found under a name."""
    if name == "*":
        return "module"
    if name.startswith("change of "):
        return name
    match statement:
        case ast.Lambda():
            return "function without a name"
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return f"method {name}" if "." in name else f"function {name}"
        case ast.ClassDef():
            return f"class {name}"
        case ast.Assign() | ast.AnnAssign():
            return f"constant {name}"
        case _:
            return f"code of {name}"
