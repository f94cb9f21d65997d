"""The code that an event type or a measure reaches in its project, found in syntax trees without running anything.

The search reads in this order:

1. It starts at the methods that decoding or folding calls, or at one function (`code_of_classes`, `code_of_function`).
2. It takes the statements that give a name its value, in normal form, with links in place of global names
   (`views/fingerprint/links.py`).
3. What the links refer to is taken next, through all modules of the project, until nothing more is found.
4. It labels what was found and writes it as text.

If a name could refer to several things, the search takes all of them: a fingerprint that changes too often costs a recompute,
while a fingerprint that stays although a number changes is an error. Of a package outside the project, only the version counts.
"""

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.links import WHOLE, PendingLabel, linked
from tandem.views.fingerprint.module_trees import ImportStatement, ModuleTrees, bound, is_field, within
from tandem.views.fingerprint.normal_form import normal_form
from tandem.views.fingerprint.part_tree import Meaning, counted_package, version_of
from tandem.views.fingerprint.references import Defined, Foreign, References, Referent, Unknown, Whole
from tandem.views.fingerprint.tree_text import text
from tandem.views.project.isolated_import import ProjectLoader


def code_of_classes(types: Sequence[type], called: Iterable[str] = ("__post_init__", "_missing_")) -> dict[str, Meaning]:
    """The code that runs when the attributes `called` of these classes are used, by name.

    Each part is a function, a constant or another statement that gives a name its value; its value is its text in normal form.
    `called` is by default the attributes of structs and enums that decoding uses.

    Raises:
        DefinitionError: if a method's source cannot be read.

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


def code_of_function(function: FunctionType) -> dict[str, Meaning]:
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
    """Statements in normal form, and their name for readers."""

    called: str
    forms: list[ast.AST]


class _Search:
    """What the search found so far, and what it still has to visit.

    `home` is the module where the search starts: names of definitions there have no module.
    """

    def __init__(self, trees: ModuleTrees, home: str) -> None:
        self.trees = trees
        self.home = home
        self.references = References(trees)
        self.found: dict[Defined, _Code] = {}
        self.packages: dict[str, Meaning] = {}
        self.classes: dict[Defined, dict[str, list[ast.stmt]]] = {}
        """The attributes of classes; the search takes one as soon as code uses its name."""
        self.words: set[str] = set()
        """Attributes and string constants in the code found: each may be the name of a class's attribute."""
        self.waiting: list[PendingLabel] = []

    # Starts of a search.

    def add_class(self, owner: type, method: FunctionType | None = None) -> None:
        """Let the class's attributes be found; if only a method is known, it may have been made by no class statement."""
        module, name = owner.__module__, owner.__qualname__
        tree = self.trees.tree(module)
        found = within(tree, name) if tree is not None else None
        if isinstance(found, ast.ClassDef):
            self.classes[Defined(module, name)] = _by_name(one for one in found.body if not is_field(one))
            # Statements of a module that change the class later, such as `C.factor = 2`.
            changes = [
                one for one in self.references.statements(module, name) if not isinstance(one, ast.ClassDef | ImportStatement)
            ]
            self._follow(self._take(Defined(module, f"change of {name}"), changes))
        elif method is not None:
            self.add_function(method)

    def add_function(self, function: FunctionType) -> None:
        """Take a function of a module; a lambda is named by its line."""
        module, name = function.__module__, function.__qualname__.partition(".")[0]
        tree = self.trees.tree(module)
        if tree is None:
            self.add_package(module)
        elif function.__name__ == "<lambda>":
            line = function.__code__.co_firstlineno
            lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == line]
            self._follow(self._take(Defined(module, f"line {len(self.found)}"), lambdas))
        else:
            self._refuse_closure(tree, function)
            self._follow([Defined(module, name)])

    def add_package(self, module: str) -> None:
        """Note the version of the package that a module is in."""
        package = counted_package(module)
        if package is not None:
            self.packages.setdefault(f"{package}==", version_of(package))

    def _refuse_closure(self, tree: ast.Module, function: FunctionType) -> None:
        """Of a function that another one made, what it holds is not in the code; of a decorated one, the decorator is."""
        decorated = any(
            isinstance(one, ast.FunctionDef) and one.name == function.__name__ and one.decorator_list for one in tree.body
        )
        if "<locals>" in function.__code__.co_qualname and not decorated:
            raise DefinitionError(
                f"{function.__name__} is made by {function.__code__.co_qualname.partition('.')[0]}, so its code is not "
                "its whole meaning; define it by its name in a module"
            )

    # The search.

    def _follow(self, referents: Iterable[Referent]) -> None:
        """Take everything that is referred to, transitively."""
        pending = list(referents)
        while pending:
            pending.extend(self._taken(pending.pop()))

    def _taken(self, referent: Referent) -> Iterator[Referent]:
        """Take one thing that is referred to; returns what it refers to."""
        match referent:
            case Defined(module, name):
                statements = self.references.statements(module, name)
                if referent in self.found:
                    return
                yield from self._take(referent, statements)
                for statement in statements:
                    for node in ast.walk(statement):
                        if isinstance(node, ImportStatement):
                            yield from self._imported(module, node, name)
            case Whole(module):
                # The code uses the module as a value, so it may use anything in it.
                tree = self.trees.tree(module)
                yield from self._take(Defined(module, WHOLE), tree.body if tree is not None else [])
            case Foreign(path):
                self.add_package(path[0])
            case Unknown(stars):
                for star in stars:
                    self.add_package(star)

    def _take(self, place: Defined, statements: Sequence[ast.AST], own: Collection[str] = ()) -> list[Referent]:
        """Add statements in normal form; returns what they refer to. `own` are the names of the class around them."""
        if not statements or place in self.found:
            return []
        first: Any = statements[0]
        forms = [normal_form(one) for one in statements]
        self.found[place] = _Code(f"{_kind(place.name, first)} in {self.trees.file(place.module)}:{first.lineno}", forms)
        referents: list[Referent] = []
        inside: set[str] = set()
        for form in forms:
            for node in ast.walk(form):
                match node:
                    case ast.Attribute(attr=word) | ast.Constant(value=str(word)):
                        self.words.add(word)
                    case ast.Name(id=word) if word in own:
                        self.words.add(word)
                    case ast.Import() | ast.ImportFrom():
                        referents.extend(self._imported(place.module, node))
                    case ast.ClassDef(body=body):
                        inside.update(_by_name(body))
        for number, form in enumerate(forms):
            forms[number], links = linked(form, place.module, self.references, inside.union(own))
            referents.extend(links.referents)
            self.waiting.extend(links.waiting)
        return referents

    def _imported(self, module: str, statement: ImportStatement, name: str | None = None) -> Iterator[Referent]:
        for reference in self.references.imported(module, statement, name):
            yield from (reference.referent, *reference.others)

    # The result.

    def everything(self) -> dict[str, Meaning]:
        """All parts found, in order of name; called when the search is complete."""
        before = -1
        while before < len(self.found):
            before = len(self.found)
            for owner, attributes in self.classes.items():
                for word in sorted(self.words & attributes.keys()):
                    self._follow(self._take(Defined(owner.module, f"{owner.name}.{word}"), attributes[word], attributes.keys()))
        labels = self._labels()
        for name in self.waiting:
            name.write(labels)
        meanings = {
            labels[place]: Meaning(code.called, "\n".join(text(form) for form in code.forms))
            for place, code in self.found.items()
        }
        return dict(sorted({**meanings, **self.packages}.items()))

    def _labels(self) -> dict[Defined, str]:
        """Names of definitions without their modules, unless two definitions share a name."""
        number = Counter(place.name for place in self.found)
        return {
            place: place.name if place.module == self.home or number[place.name] == 1 else f"{place.name} of {place.module}"
            for place in self.found
        }


def _kind(name: str, statement: ast.AST) -> str:
    """The kind of code behind a name, for readers."""
    if name == WHOLE:
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
