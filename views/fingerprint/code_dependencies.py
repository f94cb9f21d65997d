"""The code that an event type or a measure reaches in its project, found in syntax trees without running anything.

From the methods that decoding or folding calls it follows names through modules of the project: functions, classes, constants and
the statements that fill them. Of what is not the project's, only the package's version counts. Where a name could mean more than
one thing, all of them are taken: a fingerprint that changes too often costs a recompute, a fingerprint that does not change when
a number does would be wrong.
"""

import ast
import sys
from collections import Counter
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from types import FunctionType
from typing import Any, Final

from views.errors import DefinitionError
from views.fingerprint.meaning import Meaning
from views.fingerprint.module_trees import ImportStatement, ModuleTrees, bound, is_field, within
from views.fingerprint.normal_form import normal_form
from views.fingerprint.references import Defined, Foreign, References, Referent, Unknown, Whole
from views.fingerprint.tree_text import text
from views.project.isolated_import import PLATFORM, ProjectLoader

_WHOLE: Final = "*"


def reached(types: Sequence[type], called: Iterable[str] = ("__post_init__", "_missing_")) -> dict[str, Meaning]:
    """The code that runs when the attributes `called` of these classes are used, by name.

    Each is a function, a constant or whatever else gives a name its value; it means its text in normal form.
    Those of structs and enums are what decoding uses.
    Raises DefinitionError if a method's source cannot be read.
    """
    methods = [(ancestor, method) for one in types for ancestor in one.__mro__ for method in _methods(ancestor)]
    home = types[0].__module__
    own = [method for _, method in methods if method.__module__ == home or _loaded_by_project(method)]
    if not own:
        return {}
    search = _Search(ModuleTrees(own[0]), home)
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
    search = _Search(ModuleTrees(function), function.__module__)
    search.add_function(function)
    return search.everything()


def _loaded_by_project(function: FunctionType) -> bool:
    return isinstance(function.__globals__.get("__loader__"), ProjectLoader)


def _methods(owner: type) -> list[FunctionType]:
    values = [getattr(value, "__func__", getattr(value, "fget", value)) for value in vars(owner).values()]
    return [value for value in values if isinstance(value, FunctionType)]


def _by_name(statements: Iterable[ast.stmt]) -> dict[str, list[ast.stmt]]:
    index: dict[str, list[ast.stmt]] = {}
    for statement in statements:
        for name in bound(statement):
            index.setdefault(name, []).append(statement)
    return index


@dataclass(frozen=True)
class _Code:
    """Statements in normal form, and what a person calls them."""

    called: str
    forms: list[ast.AST]


class _Search:
    """What was found so far, and what is still to be looked at.

    `home` is the module of what is asked about: definitions there are known by their names alone.
    """

    def __init__(self, trees: ModuleTrees, home: str) -> None:
        self.trees = trees
        self.home = home
        self.references = References(trees)
        self.found: dict[Defined, _Code] = {}
        self.packages: dict[str, Meaning] = {}
        self.words: set[str] = set()  # attributes and texts in the code found: any may name an attribute of a class below
        self.classes: dict[Defined, dict[str, list[ast.stmt]]] = {}
        self.names: list[tuple[ast.Name, Defined, str]] = []
        """Names in the forms that refer to a definition, which are replaced by its label once all is found."""

    def add_class(self, owner: type, method: FunctionType | None = None) -> None:
        """Let the class's attributes be found; if only a method is known, it may have been made by no class statement."""
        module, name = owner.__module__, owner.__qualname__
        tree = self.trees.tree(module)
        found = within(tree, name) if tree is not None else None
        if isinstance(found, ast.ClassDef):
            self.classes[Defined(module, name)] = _by_name(one for one in found.body if not is_field(one))
            # What a module does to a class after it is made, such as `C.factor = 2`.
            changes = [
                one for one in self.references.statements(module, name) if not isinstance(one, ast.ClassDef | ImportStatement)
            ]
            self._take(Defined(module, f"change of {name}"), changes)
        elif method is not None:
            self.add_function(method)

    def add_function(self, function: FunctionType) -> None:
        """Take a function of a module; a lambda is known by its line."""
        module, name = function.__module__, function.__qualname__.partition(".")[0]
        tree = self.trees.tree(module)
        if tree is None:
            self.add_package(module)
        elif function.__name__ == "<lambda>":
            line = function.__code__.co_firstlineno
            lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == line]
            self._take(Defined(module, f"line {len(self.found)}"), lambdas)
        else:
            self._refuse_closure(tree, function)
            self._follow(Defined(module, name))

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
            for owner, attributes in self.classes.items():
                for word in sorted(self.words & attributes.keys()):
                    self._take(Defined(owner.module, f"{owner.name}.{word}"), attributes[word], attributes.keys())
        labels = self._labels()
        for node, referent, written in self.names:
            node.id = written.format(labels.get(referent, referent.name))
        meanings = {
            labels[place]: Meaning(code.called, "\n".join(text(form) for form in code.forms))
            for place, code in self.found.items()
        }
        return dict(sorted({**meanings, **self.packages}.items()))

    def _labels(self) -> dict[Defined, str]:
        """Names of definitions that do not say where they are, unless two of them have one name."""
        number = Counter(place.name for place in self.found)
        return {
            place: place.name if place.module == self.home or number[place.name] == 1 else f"{place.name} of {place.module}"
            for place in self.found
        }

    def _follow(self, referent: Referent) -> None:
        """Take what is referred to."""
        match referent:
            case Defined(module, name):
                statements = self.references.statements(module, name)
                self._take(referent, statements)
                for statement in statements:
                    for node in ast.walk(statement):
                        if isinstance(node, ImportStatement):
                            self._follow_imported(module, node, name)
            case Whole(module):
                # The module itself is handed on: anything in it may be used.
                tree = self.trees.tree(module)
                self._take(Defined(module, _WHOLE), tree.body if tree is not None else [])
            case Foreign(path):
                self.add_package(path[0])
            case Unknown(stars):
                for star in stars:
                    self.add_package(star)

    def _follow_imported(self, module: str, statement: ImportStatement, name: str | None = None) -> None:
        for reference in self.references.imported(module, statement, name):
            for referent in (reference.referent, *reference.others):
                self._follow(referent)

    def _take(self, place: Defined, statements: Sequence[ast.AST], own: Collection[str] = ()) -> None:
        """Add statements in normal form, and follow the names in them; `own` are those of the class that they are in."""
        if not statements or place in self.found:
            return
        first: Any = statements[0]
        forms = [normal_form(one) for one in statements]
        self.found[place] = _Code(f"{_kind(place.name, first)} in {self.trees.file(place.module)}:{first.lineno}", forms)
        for form in forms:
            for node in ast.walk(form):
                match node:
                    case ast.Attribute(attr=word) | ast.Constant(value=str(word)):
                        self.words.add(word)
                    case ast.Name(id=word) if word in own:
                        self.words.add(word)
                    case ast.Import() | ast.ImportFrom():
                        self._follow_imported(place.module, node)
        inside = {
            name for form in forms for node in ast.walk(form) if isinstance(node, ast.ClassDef) for name in _by_name(node.body)
        }
        for number, form in enumerate(forms):
            forms[number] = _Linker(self, place.module, inside.union(own)).visit(form)

    def link(self, module: str, path: tuple[str, ...], ambiguous: Container[str]) -> ast.expr | None:
        """What stands for a path in the text of code, and follow it; None for what is as it is written.

        A name that is `ambiguous` may be an attribute of a class around it instead.
        """
        reference = self.references.resolve(module, path)
        referent, rest = reference.referent, reference.rest
        for each in (referent, *reference.others):
            self._follow(each)
        written = f"{path[0]} or {{}}" if path[0] in ambiguous else "{}"
        node = ast.Name("")
        match referent:
            case Defined():
                self.names.append((node, referent, f"{written}@"))
            case Whole(target):
                self.names.append((node, Defined(target, _WHOLE), f"{written}@"))
            case Foreign((root, *below)):
                node.id, rest = written.format(f"{root} imported"), (*below, *rest)
            case Unknown(stars):
                if not stars:
                    return None
                node.id = written.format(f"{path[len(path) - len(rest) - 1]} of {', '.join(stars)}")
        linked: ast.expr = node
        for attribute in rest:
            linked = ast.Attribute(linked, attribute)
        return linked

    def add_package(self, module: str) -> None:
        """Note the version of a package that is not the project's; Python's own and Tandem's are pinned elsewhere."""
        root = module.split(".", maxsplit=1)[0]
        if root and root not in sys.stdlib_module_names and root not in PLATFORM:
            self.packages.setdefault(f"{root}==", version_of(root))


class _Linker(ast.NodeTransformer):
    """Replaces the global names that a tree in normal form reads, with the attributes that lead to a definition."""

    def __init__(self, search: _Search, module: str, ambiguous: Container[str]) -> None:
        self.search = search
        self.module = module
        self.ambiguous = ambiguous

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        path: list[str] = []
        below: ast.expr = node
        while isinstance(below, ast.Attribute):
            path, below = [below.attr, *path], below.value
        if not isinstance(below, ast.Name):
            return self.generic_visit(node)
        return self._linked(node, below, path)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._linked(node, node, [])

    def _linked(self, node: ast.expr, first: ast.Name, attributes: list[str]) -> ast.AST:
        if first.id.startswith("%"):
            return node
        linked = self.search.link(self.module, (first.id, *attributes), self.ambiguous)
        return node if linked is None or (first is node and not isinstance(first.ctx, ast.Load)) else linked


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
    if name == _WHOLE:
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
