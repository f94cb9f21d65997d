"""The mutants of a source text: each a change of a few characters that a reviewer could miss.

Changes are made in the text, not in the tree, so that a mutant reads as its author would have written it. Nothing is changed
that no answer can depend on: docstrings, annotations, decorators, what an error says, imports.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

_OPERATORS: Final = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "is": "is not", "is not": "is", "in": "not in", "not in": "in",
}  # fmt: skip
_ARITHMETIC: Final = {"+": "-", "-": "+", "*": "//", "//": "*", "/": "*", "|": "&", "&": "|", "<<": ">>", ">>": "<<"}
_NAMES: Final = {
    one: other
    for pair in (
        ("min", "max"), ("any", "all"), ("minimum", "maximum"), ("bisect_left", "bisect_right"), ("floor", "ceil"),
        ("union", "intersection"), ("issubset", "issuperset"), ("left", "right"), ("takewhile", "dropwhile"),
    )
    for one, other in (pair, pair[::-1])
} | {"sorted": "list", "reversed": "list", "abs": "+", "first": "last", "last": "first"}  # fmt: skip
_SQL: Final = re.compile(
    r"\b(SELECT|CASE|WHEN|FROM|WHERE|OVER|ORDER BY|GROUP BY|CAST|QUALIFY|IS NULL|IS NOT NULL|JOIN|BETWEEN)\b"
    r"|\b(min|max|arg_min|arg_max|sum|count|greatest|least|coalesce)\("
)
_IN_SQL: Final = (
    *((rf"(?<= ){re.escape(old)}(?= )", new) for old, new in (*list(_OPERATORS.items())[:4], ("=", "<>"), ("<>", "="))),
    *((rf"(?<= ){re.escape(old)}(?= )", new) for old, new in (("+", "-"), ("-", "+"), ("//", "%"), ("%", "//"))),
    *(
        (rf"\b{old}\b", new)
        for old, new in (("AND", "OR"), ("OR", "AND"), ("IS NULL", "IS NOT NULL"), ("IS NOT NULL", "IS NULL"))
    ),
    *((rf"\b{old}(?=\()", new) for old, new in (("min", "max"), ("max", "min"), ("arg_min", "arg_max"), ("arg_max", "arg_min"))),
    *((rf"\b{old}(?=\()", new) for old, new in (("greatest", "least"), ("least", "greatest"), ("sum", "max"))),
    *((rf"\b{old}\b", new) for old, new in (("DESC", "ASC"), ("LEFT JOIN", "JOIN"), ("PRECEDING", "FOLLOWING"), ("NOT ", ""))),
)
_DECLARED: Final = frozenset({"check", "frozen", "init", "kw_only", "maxsize", "repr", "slots", "strict"})
"""Keywords whose constants declare something that no answer depends on."""
_SAYING: Final = ("say", "log", "warn", "debug", "info", "warning", "print", "write")


@dataclass(frozen=True)
class Change:
    """In `file`, the characters `start` to `end` become `new`. `within` is the class and function.

    A test can only see the change if it runs one of `lines`, which count from 1 (the end excluded): those that are changed, or
    those of the function, class or module where they run at import.
    """

    file: str
    within: str
    line: int
    lines: range
    start: int
    end: int
    old: str
    new: str

    def applied(self, text: str) -> str:
        """The mutant's text."""
        return text[: self.start] + self.new + text[self.end :]

    def shown(self, text: str) -> tuple[str, str]:
        """The changed lines, before and after, each without the space around it."""
        begin = text.rfind("\n", 0, self.start) + 1
        stop = (text.find("\n", self.end) + 1 or len(text) + 1) - 1
        old, after = text[begin:stop], text[begin : self.start] + self.new + text[self.end : stop]
        return tuple(" ".join(each.split()) for each in (old, after))  # type: ignore[return-value]


def changes(file: str, text: str) -> list[Change]:
    """Every change of the text, in its order; `differs` tells which of them are mutants."""
    found = {(each.start, each.end, each.new): each for each in _Visitor(file, text).of(ast.parse(text))}
    return [found[place] for place in sorted(found)]


def differs(change: Change, text: str) -> bool:
    """Whether the changed text is Python and says something else than the text did."""
    try:
        return ast.dump(ast.parse(change.applied(text))) != ast.dump(ast.parse(text))
    except SyntaxError:
        return False


class _Visitor:
    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text
        self._begins = [0]
        for line in text.splitlines(keepends=True):
            self._begins.append(self._begins[-1] + len(line))
        self._lines = text.splitlines(keepends=True)

    def of(self, tree: ast.Module) -> Iterator[Change]:
        self._imported: range | None = range(1, len(self._lines) + 1)
        for statement in tree.body:
            yield from self._visit(statement, "")

    def _place(self, line: int, column: int) -> int:
        """A character's index; a tree counts columns in bytes."""
        return self._begins[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _span(self, node: ast.AST) -> tuple[int, int]:
        # Any node that is asked for has a place.
        at: ast.expr = node  # type: ignore[assignment]
        assert at.end_lineno is not None
        assert at.end_col_offset is not None
        return self._place(at.lineno, at.col_offset), self._place(at.end_lineno, at.end_col_offset)

    def _source(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self.text[start:end]

    def _change(self, within: str, start: int, end: int, new: str) -> Change:
        line, last = (self.text.count("\n", 0, place) + 1 for place in (start, end))
        lines = self._imported or range(line, last + 1)
        return Change(self.file, within, line, lines, start, end, self.text[start:end], new)

    def _replaced(self, within: str, node: ast.AST, *texts: str) -> Iterator[Change]:
        for text in texts:
            yield self._change(within, *self._span(node), text)

    def _visit(self, node: ast.AST, within: str) -> Iterator[Change]:
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Assert():
                return
            case ast.Raise():
                yield from self._replaced(within, node, "pass")
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from self._defined(node, f"{within}.{node.name}".lstrip("."))
                return
            case ast.AnnAssign(target=ast.Name("__all__")) | ast.Assign(targets=[ast.Name("__all__")]):
                return
            case ast.AnnAssign():
                if node.value is not None:
                    yield from self._visit(node.value, within)
                return
            case ast.Constant() | ast.JoinedStr():
                yield from self._constant(node, within)
                return
            case ast.Expr(value=ast.Constant()):
                return
            case ast.Expr(value=ast.Call() as call) if self._says(call):
                return
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                return
            case ast.Call() if self._is_error(node):
                return
            case ast.keyword(value=ast.Constant()) if node.arg in _DECLARED:
                return
        yield from self._own(node, within)
        for child in ast.iter_child_nodes(node):
            yield from self._visit(child, within)

    def _defined(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, within: str) -> Iterator[Change]:
        assert node.end_lineno is not None
        outside = self._imported
        if not isinstance(node, ast.ClassDef):
            self._imported = outside and range(node.lineno, node.end_lineno + 1)
            for default in (*node.args.defaults, *(each for each in node.args.kw_defaults if each is not None)):
                yield from self._visit(default, within)
            self._imported = None
        if node.name not in {"__repr__", "__str__"}:
            for statement in node.body:
                yield from self._visit(statement, within)
        self._imported = outside

    def _own(self, node: ast.AST, within: str) -> Iterator[Change]:
        """The changes of one node, without those of what is in it."""
        match node:
            case ast.Compare():
                for operand, following in pairwise((node.left, *node.comparators)):
                    yield from self._operator(within, operand, following, _OPERATORS)
            case ast.BinOp():
                yield from self._operator(within, node.left, node.right, _ARITHMETIC)
                yield from self._replaced(within, node, self._source(node.left))
            case ast.AugAssign():
                yield from self._replaced(within, node, "pass")
            case ast.BoolOp():
                word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                for operand, following in pairwise(node.values):
                    yield from self._operator(within, operand, following, {word: other})
                for dropped in node.values:
                    kept = [f"({self._source(each)})" for each in node.values if each is not dropped]
                    yield from self._replaced(within, node, f" {word} ".join(kept))
            case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
                yield from self._replaced(within, node, f"({self._source(node.operand)})")
            case ast.If() | ast.IfExp():
                yield from self._replaced(within, node.test, "True", "False")
            case ast.comprehension():
                for condition in node.ifs:
                    yield from self._replaced(within, condition, "True")
            case ast.Slice():
                for bound in (node.lower, node.upper):
                    if bound is not None:
                        yield from self._replaced(within, bound, "")
            case ast.Expr(value=ast.Call()):
                yield from self._replaced(within, node, "pass")
            case ast.Delete() | ast.Continue() | ast.Break():
                yield from self._replaced(within, node, "pass")
            case ast.Name() if node.id in _NAMES:
                yield from self._replaced(within, node, _NAMES[node.id])
            case ast.Attribute() if node.attr in _NAMES:
                _, end = self._span(node)
                yield self._change(within, end - len(node.attr), end, _NAMES[node.attr])

    def _operator(self, within: str, left: ast.AST, right: ast.AST, others: dict[str, str]) -> Iterator[Change]:
        start, end = self._span(left)[1], self._span(right)[0]
        between = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), self.text[start:end])
        written = between.strip(" \n\\()")
        if written in others:
            at = start + between.index(written)
            yield self._change(within, at, at + len(written), others[written])

    def _constant(self, node: ast.Constant | ast.JoinedStr, within: str) -> Iterator[Change]:
        if isinstance(node, ast.JoinedStr) or isinstance(node.value, str):
            yield from self._statement(node, within)
        elif isinstance(node.value, bool):
            yield from self._replaced(within, node, str(not node.value))
        elif isinstance(node.value, int):
            yield from self._replaced(within, node, str(node.value + 1), *([str(node.value - 1)] if node.value else []))

    def _statement(self, node: ast.Constant | ast.JoinedStr, within: str) -> Iterator[Change]:
        """The changes of a piece of SQL, outside of what is put into it; a side, where a call is told one."""
        start, _ = self._span(node)
        written = self._source(node)
        if written in {'"left"', '"right"'}:
            yield self._change(within, start + 1, start + len(written) - 1, _NAMES[written[1:-1]])
            return
        if not _SQL.search(written):
            return
        # What stands in braces is Python of its own, or another piece.
        bare = re.sub(r"\{[^{}]*\}", lambda put: "\0" * len(put[0]), written)
        for pattern, new in (*_IN_SQL, (r"(?<![\w.])\d+(?![\w.])", None)):
            for match in re.finditer(pattern, bare):
                other = str(int(match[0]) + 1) if new is None else new
                yield self._change(within, start + match.start(), start + match.end(), other)

    def _says(self, call: ast.Call) -> bool:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        return name in _SAYING

    def _is_error(self, call: ast.Call) -> bool:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        return name.endswith("Error") or name in {"Refused", "Problem"}
