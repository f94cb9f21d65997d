"""What the global names in a project's code refer to: a definition in one of its modules, a module, or part of a package.

It follows imports to the definition of a name, so the way in which code imports what it uses does not count.
"""

import ast
from dataclasses import dataclass, field

from tandem.views.fingerprint.module_trees import ImportStatement, ModuleTrees, concerned, imports


@dataclass(frozen=True)
class Defined:
    """A definition: what the statements of a project's module bind to a name."""

    module: str
    name: str


@dataclass(frozen=True)
class Whole:
    """A module of the project."""

    module: str


@dataclass(frozen=True)
class Foreign:
    """A module outside the project, or something in it: `("math", "floor")`."""

    path: tuple[str, ...]


@dataclass(frozen=True)
class Unknown:
    """A builtin, or a name that one of these modules exports to `from ... import *`."""

    stars: tuple[str, ...] = ()


Referent = Defined | Whole | Foreign | Unknown


@dataclass(frozen=True)
class Reference:
    """What a dotted path refers to, the remaining attributes, and what else the path may refer to."""

    referent: Referent
    rest: tuple[str, ...] = ()
    others: tuple[Referent, ...] = ()


@dataclass
class References:
    """Resolves names in the modules of one project."""

    trees: ModuleTrees
    _statements: dict[str, dict[str, list[ast.stmt]]] = field(default_factory=dict)

    def statements(self, module: str, name: str) -> list[ast.stmt]:
        """The statements of a module, imports too, that bind a name or may change its value; none outside the project."""
        if module not in self._statements:
            index: dict[str, list[ast.stmt]] = {}
            tree = self.trees.tree(module)
            for statement in tree.body if tree is not None else ():
                for concerns in concerned(statement):
                    index.setdefault(concerns, []).append(statement)
            self._statements[module] = index
        return self._statements[module].get(name, [])

    def resolve(self, module: str, path: tuple[str, ...]) -> Reference:
        """What `name.attribute...` refers to in a module's code."""
        found = self._bound(module, path[0], frozenset())
        rest, others = path[1:], found.others
        while rest and isinstance(found.referent, Whole):
            of, name, rest = found.referent.module, rest[0], rest[1:]
            found, submodule = self._bound(of, name, frozenset()), f"{of}.{name}"
            others += found.others
            if self.trees.tree(submodule) is None:
                continue
            if isinstance(found.referent, Unknown):
                found = Reference(Whole(submodule))
            elif self.statements(of, name) and not isinstance(self.statements(of, name)[-1], ast.ImportFrom):
                others += (Whole(submodule),)  # whichever of the two came last
        return Reference(found.referent, rest, others)

    def imported(self, module: str, statement: ImportStatement, name: str | None = None) -> list[Reference]:
        """What an import binds to a name; without a name, all that it binds."""
        aliases = [alias for alias in statement.names if name is None or _binds(statement, alias) == name]
        return [self._imported(module, statement, alias, frozenset()) for alias in aliases]

    def _bound(self, module: str, name: str, seen: frozenset[tuple[str, str]]) -> Reference:
        """What a module binds to a name."""
        if (module, name) in seen:  # modules may import names from each other in a cycle
            return Reference(Unknown())
        seen |= {(module, name)}
        statements = self.statements(module, name)
        if not statements:
            return self._starred(module, name, seen)
        found = {
            self._imported(module, one, alias, seen)
            for one in statements
            if isinstance(one, ImportStatement)
            for alias in one.names
            if _binds(one, alias) == name
        }
        alone = len(found) == 1 and all(isinstance(one, ImportStatement) for one in statements)
        return found.pop() if alone else Reference(Defined(module, name))

    def _imported(self, module: str, statement: ImportStatement, alias: ast.alias, seen: frozenset[tuple[str, str]]) -> Reference:
        if isinstance(statement, ast.Import):
            target = alias.name if alias.asname else alias.name.partition(".")[0]
            return Reference(Foreign(tuple(target.split("."))) if self.trees.tree(target) is None else Whole(target))
        origin = self.trees.absolute(module, statement)
        submodule = f"{origin}.{alias.name}"
        if self.trees.tree(origin) is None:
            return Reference(Foreign(tuple(submodule.split("."))))
        if alias.name == "*":
            return Reference(Whole(origin))
        found = self._bound(origin, alias.name, seen)
        if isinstance(found.referent, Unknown) and self.trees.tree(submodule) is not None:
            return Reference(Whole(submodule))
        return found

    def _starred(self, module: str, name: str, seen: frozenset[tuple[str, str]]) -> Reference:
        """What a name may refer to that a module binds only by `from ... import *`."""
        tree = self.trees.tree(module)
        stars = [one for one in (imports(tree) if tree else ()) if isinstance(one, ast.ImportFrom) and one.names[0].name == "*"]
        origins = [self.trees.absolute(module, one) for one in stars]
        foreign = [origin for origin in origins if self.trees.tree(origin) is None]
        own = [self._bound(origin, name, seen) for origin in origins if origin not in foreign]
        found = [one for one in own if not isinstance(one.referent, Unknown)]
        others = tuple(other for one in own for other in one.others)
        unknown = [star for one in own if isinstance(one.referent, Unknown) for star in one.referent.stars]
        if len({one.referent for one in found}) == 1 and not foreign and not unknown:
            return Reference(found[0].referent, others=others)
        which = (*foreign, *unknown, *(origins if found else ()))
        return Reference(Unknown(tuple(dict.fromkeys(which))), others=(*others, *(one.referent for one in found)))


def _binds(statement: ImportStatement, alias: ast.alias) -> str:
    """The name that an import binds."""
    return alias.asname or (alias.name.partition(".")[0] if isinstance(statement, ast.Import) else alias.name)
