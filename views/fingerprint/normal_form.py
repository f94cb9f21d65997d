"""Python code in normal form: text that is equal for code that differs only in what changes no result.

The normal form leaves out comments, formatting, docstrings, annotations and type parameters of functions, and numbers the names
of parameters and local variables. Imports the standard library only, so that any interpreter can run this file alone;
`tandem.views.fingerprint.tree_text` writes the tree.
"""

import ast
from collections.abc import Iterable, Iterator
from typing import Any

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def normal_form(node: ast.AST) -> ast.AST:
    """A copy of the tree in normal form: local names are numbered in order of appearance, as `%0`."""
    renamed: ast.AST = _Renamer().visit(_copied(node))
    return renamed


def _copied(node: Any) -> Any:
    """A copy of the tree without positions; copy.deepcopy would need several stack frames per level."""
    if isinstance(node, ast.AST):
        return type(node)(**{name: _copied(child) for name, child in ast.iter_fields(node)})
    return list(map(_copied, node)) if isinstance(node, list) else node


class _Renamer(ast.NodeTransformer):
    """Renames local names by Python's scopes: functions, lambdas and comprehensions; a class's names stay."""

    def __init__(self) -> None:
        self.scopes: list[dict[str, str]] = []
        self.numbered = 0
        self.type_parameters = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: Any) -> ast.AST:
        node.decorator_list = self._each(node.decorator_list)
        self._defaults(node.args)
        node.name = self._new_name(node.name)
        node.returns = None
        self._push_type_parameters(node)
        node.type_params = []  # these statements only annotate
        self._scoped(node, [*_parameters(node.args), *_bound(node.body)], _declared_elsewhere(node.body))
        self.scopes.pop()
        return node  # type: ignore[no-any-return]  # one of two function nodes

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._defaults(node.args)
        self._scoped(node, _parameters(node.args), set())
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list, node.name = self._each(node.decorator_list), self._new_name(node.name)
        self._push_type_parameters(node)
        node.bases, node.keywords = self._each(node.bases), self._each(node.keywords)
        # A class's own names are attributes that other code uses, so they stay.
        self.scopes.append({name: name for name in _bound(node.body)})
        node.body = self._body(node.body)
        del self.scopes[-2:]
        return node

    def visit_TypeAlias(self, node: Any) -> ast.AST:
        self.visit(node.name)
        self._push_type_parameters(node)
        node.value = self.visit(node.value)
        self.scopes.pop()
        return node  # type: ignore[no-any-return]  # Python 3.11 has no such node

    def _push_type_parameters(self, node: Any) -> None:
        """A scope of the names in `def f[T]`, `class C[T]` or `type A[T]`, which Python has from 3.12 on.

        They have numbers of their own, so a function has the same form with and without them.
        """
        parameters = getattr(node, "type_params", [])
        self.scopes.append({one.name: f"%T{self.type_parameters + number}" for number, one in enumerate(parameters)})
        self.type_parameters += len(parameters)
        for one in parameters:
            one.name = self._new_name(one.name)
            self.generic_visit(one)

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self._comprehension(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        return self._comprehension(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        return self._comprehension(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        return self._comprehension(node)

    def _comprehension(self, node: Comprehension) -> ast.AST:
        first = node.generators[0]
        outside = self.visit(first.iter)  # Python evaluates the first iterable in the scope around the comprehension
        first.iter = ast.Constant(None)
        self._push(name for part in node.generators for name in _targets(part.target))
        self.generic_visit(node)
        self.scopes.pop()
        first.iter = outside
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._new_name(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg, node.annotation = self._new_name(node.arg), None
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.name = node.name and self._new_name(node.name)
        return self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> ast.AST:
        node.name = node.name and self._new_name(node.name)
        return self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> ast.AST:
        node.name = node.name and self._new_name(node.name)
        return node

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        node.rest = node.rest and self._new_name(node.rest)
        return self.generic_visit(node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        node.names = [self._new_name(name) for name in node.names]
        return node

    def visit_alias(self, node: ast.alias) -> ast.AST:
        bound = node.asname or node.name
        node.asname = self._new_name(bound) if self._new_name(bound) != node.name else None
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        node.kind = None  # u"..." is "..."
        return node

    def _scoped(self, node: Any, names: Iterable[str], elsewhere: set[str]) -> None:
        self._push(name for name in names if name not in elsewhere)
        node.args.posonlyargs, node.args.args = self._each(node.args.posonlyargs), self._each(node.args.args)
        node.args.kwonlyargs = self._each(node.args.kwonlyargs)
        for star in (node.args.vararg, node.args.kwarg):
            if star is not None:
                self.visit(star)
        node.body = self._body(node.body) if isinstance(node.body, list) else self.visit(node.body)
        self.scopes.pop()

    def _defaults(self, arguments: ast.arguments) -> None:
        arguments.defaults = self._each(arguments.defaults)
        arguments.kw_defaults = [None if value is None else self.visit(value) for value in arguments.kw_defaults]

    def _body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """The statements without docstrings and other statements that are only a constant."""
        kept = [self.visit(one) for one in statements if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
        return kept or [ast.Pass()]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Keep annotations in a class, where they may declare a field."""
        if self.scopes and isinstance(node.target, ast.Name) and self.scopes[-1].get(node.target.id) == node.target.id:
            return self.generic_visit(node)
        if node.value is None:
            return ast.Pass()
        return ast.Assign([self.visit(node.target)], self.visit(node.value))

    def _each(self, nodes: list[Any]) -> list[Any]:
        return [self.visit(node) for node in nodes]

    def _push(self, names: Iterable[str]) -> None:
        scope: dict[str, str] = {}
        for name in names:
            if name not in scope:
                scope[name] = f"%{self.numbered}"
                self.numbered += 1
        self.scopes.append(scope)

    def _new_name(self, name: str) -> str:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), name)


def _parameters(arguments: ast.arguments) -> list[str]:
    stars = [star for star in (arguments.vararg, arguments.kwarg) if star is not None]
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *stars)]


def _targets(target: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del)]


def _own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a scope, those of functions, classes and lambdas inside it left out."""
    for node in body:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _own_nodes(ast.iter_child_nodes(node))


def _bound(body: Iterable[ast.AST]) -> list[str]:
    """The names that a scope's statements bind, in order of appearance, without those of its comprehensions."""
    own = list(_own_nodes(body))
    comprehensions = [node for node in own if isinstance(node, Comprehension)]
    inner = {id(name) for one in comprehensions for part in one.generators for name in ast.walk(part.target)}
    names = [_name_bound(node) for node in own if id(node) not in inner]
    return [name for name in names if name]


def _name_bound(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return name
        case ast.alias(name=name, asname=None):
            return None if "." in name else name
        case ast.alias(asname=name) | ast.MatchMapping(rest=name):
            return name
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return node.name
        case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
            return name
    return None


def _declared_elsewhere(body: Iterable[ast.AST]) -> set[str]:
    return {name for node in _own_nodes(body) if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
