"""An expression over exact numbers as a tree of terms: what can be computed without rounding, and what DuckDB computes.

DuckDB computes with at most 38 digits, divides in doubles, and compares decimals of different scales by rounding one of them.
So arithmetic, comparisons, conditions, casts, abs, greatest, least, coalesce and nullif over integers and decimals become terms
that are computed with integers of any size (tandem.views.sql.exact_numbers); // and % do of integers. A quotient stays a
fraction until it is presented, or is handed to DuckDB, as a double.

Anything else is an `sql` term: DuckDB computes it from columns that hold its exact parts, decimals of at most 38 digits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final, Literal

import pyarrow as pa

from tandem.views.errors import DefinitionError
from tandem.views.source.value_types import ValueType
from tandem.views.sql.syntax import Node, has_lambda, node_columns, nodes, sql_text

TermKind = Literal["boolean", "integer", "decimal", "fraction", "null", "other"]

INT64: Final = (-(2**63), 2**63 - 1)
WIDEST: Final = 76
"""The most digits that an answer has."""
DUCKDB_DIGITS: Final = 38

_INTEGERS: Final = {
    **dict.fromkeys(("TINYINT", "INT1"), 2**7),
    **dict.fromkeys(("SMALLINT", "INT2", "SHORT"), 2**15),
    **dict.fromkeys(("INTEGER", "INT", "INT4", "SIGNED"), 2**31),
    **dict.fromkeys(("BIGINT", "INT8", "LONG"), 2**63),
    "HUGEINT": 2**127,
}
_COMPARED: Final = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}
_NAMED: Final = {"add": "+", "subtract": "-", "multiply": "*", "mod": "%", "@": "abs"}


@dataclass(frozen=True)
class Term:
    """A part of an expression.

    * `scale`: a decimal's digits after the point; `low`, `high`: bounds of an integer or decimal, in its smallest units.
    * `value`: of `column` the name, of `constant` the value in smallest units, of `cast` whether a failure gives NULL, of `sql`
      the SQL. The parts of an `sql` term are its `args`, as columns of the names in `names`.
    * `rounded`: whether DuckDB computed with doubles in it.
    * `node`: how DuckDB's parser writes it.
    """

    op: str
    kind: TermKind
    node: Any
    args: tuple["Term", ...] = ()
    scale: int = 0
    low: int = 0
    high: int = 0
    value: Any = None
    names: tuple[str, ...] = ()
    type: ValueType | None = None
    rounded: bool = False

    @property
    def exact(self) -> bool:
        """Whether it is computed here."""
        return self.op != "sql"

    @property
    def number(self) -> bool:
        """Whether it is a number that is computed here; NULL may be one."""
        return self.kind in ("integer", "decimal", "fraction", "null")

    @property
    def reads(self) -> bool:
        """Whether it reads a column."""
        return self.op in ("column", "sql") or any(arg.reads for arg in self.args)

    @property
    def arrow(self) -> pa.DataType:
        """The type in which it is presented."""
        if self.type is not None:
            return self.type.arrow
        if self.kind == "boolean":
            return pa.bool_()
        if self.kind == "fraction":
            return pa.float64()
        if self.kind != "decimal" and INT64[0] <= self.low and self.high <= INT64[1]:
            return pa.int64()
        if max(-self.low, self.high) < 10**DUCKDB_DIGITS:
            return pa.decimal128(DUCKDB_DIGITS, self.scale)
        return pa.decimal256(WIDEST, self.scale)

    @property
    def readable(self) -> pa.DataType:
        """The type in which DuckDB reads it."""
        return pa.decimal128(DUCKDB_DIGITS, self.scale) if pa.types.is_decimal256(self.arrow) else self.arrow


SqlType = Callable[[str, pa.Schema], ValueType]


def terms_of(tree: Node, fields: pa.Schema, sql_type: SqlType) -> Term:
    """The terms of a parsed expression over fields, whose metadata may say `kind` as an answer's does. Raises DefinitionError."""
    return _Compiler(fields, sql_type).term(tree)


class _Compiler:
    def __init__(self, fields: pa.Schema, sql_type: SqlType) -> None:
        self.fields = fields
        self.sql_type = sql_type
        self.numbers = count()
        self.terms: dict[int, Term] = {}

    def term(self, node: Node) -> Term:
        """The term of a node of the tree; made once, since an `sql` term looks at its parts again."""
        if id(node) not in self.terms:
            make = {
                "COLUMN_REF": self._column_ref,
                "CONSTANT": self._constant,
                "FUNCTION": self._function,
                "COMPARISON": self._comparison,
                "BETWEEN": self._between,
                "CONJUNCTION": self._conjunction,
                "OPERATOR": self._operator,
                "CASE": self._case,
                "CAST": self._cast,
            }.get(node["class"])
            self.terms[id(node)] = (make(node) if make else None) or self._sql(node)
        return self.terms[id(node)]

    def _column_ref(self, node: Node) -> Term | None:
        name = node["column_names"][0]
        if name not in self.fields.names:
            return None
        field = self.fields.field(name)
        if pa.types.is_boolean(field.type):
            return Term("column", "boolean", node, value=name)
        if pa.types.is_int64(field.type):
            return Term("column", "integer", node, low=INT64[0], high=INT64[1], value=name)
        if pa.types.is_decimal(field.type):
            whole = (field.metadata or {}).get(b"kind") == b"integer"
            largest = 10**field.type.precision - 1
            return Term("column", "integer" if whole else "decimal", node, (), field.type.scale, -largest, largest, value=name)
        return None

    def _constant(self, node: Node) -> Term | None:
        kind, text = node["literal"]["kind"], node["literal"]["text"].replace("_", "")
        if kind == "NULL_LITERAL":
            return Term("constant", "null", node)
        if kind == "BOOLEAN":
            return Term("constant", "boolean", node, value=text.casefold() == "true")
        digits = text.lstrip("+-").replace(".", "", 1)
        if kind not in ("INTEGER", "NUMERIC") or not digits.isdecimal() or len(digits) > DUCKDB_DIGITS:
            return None
        value = int(text.replace(".", "", 1))
        if "." not in text:
            return Term("constant", "integer", node, (), 0, value, value, value=value)
        return Term("constant", "decimal", node, (), len(text) - text.index(".") - 1, value, value, value=value)

    def _function(self, node: Node) -> Term | None:
        args = [self.term(argument["expression"]) for argument in node["arguments"]]
        name = node["function_name"].casefold()
        return self._compute(_NAMED.get(name, name), args, node)

    def _compute(self, name: str, args: Sequence[Term], node: Node) -> Term | None:
        match name, args:
            case "if", (condition, then, otherwise) if _conditions([condition]):
                return self._chosen("case", (condition, then, otherwise), (then, otherwise), node)
            case "nullif", (first, second) if _numbers(args):
                same = Term("=", "boolean", node, (first, second), rounded=first.rounded or second.rounded)
                return self._chosen("case", (same, Term("constant", "null", node), first), (first,), node)
            case (("greatest" | "least"), (_, *_)) if _numbers(args):
                return self._chosen(name, tuple(args), args, node)
            case (("+" | "abs"), (arg,)) if _numbers(args) and arg.kind != "null":
                return arg if name == "+" else replace(_arithmetic_term("abs", args, node), low=0, high=max(-arg.low, arg.high))
            case "-", (arg,) if _numbers(args) and arg.kind != "null":
                return replace(_arithmetic_term("negate", args, node), low=-arg.high, high=-arg.low)
            case (("+" | "-" | "*" | "/"), (_, _)) if _numbers(args):
                return _arithmetic(name, args, node)
            case (("//" | "%"), (first, second)) if all(arg.kind == "integer" for arg in args):
                most = max(-first.low, first.high) if name == "//" else min(max(-x.low, x.high) for x in (first, second))
                return replace(_arithmetic_term(name, args, node), low=-most, high=most)
        return None

    def _comparison(self, node: Node) -> Term | None:
        args = [self.term(node["left"]), self.term(node["right"])]
        if not _numbers(args) and not _conditions(args):
            return None
        rounded = any(arg.rounded for arg in args)
        if node["type"] in _COMPARED:
            return Term(_COMPARED[node["type"]], "boolean", node, tuple(args), rounded=rounded)
        if node["type"] in ("COMPARE_DISTINCT_FROM", "COMPARE_NOT_DISTINCT_FROM"):
            distinct = Term("distinct", "boolean", node, tuple(args), rounded=rounded)
            return distinct if node["type"] == "COMPARE_DISTINCT_FROM" else _condition("not", [distinct], node)
        return None

    def _between(self, node: Node) -> Term | None:
        value, low, high = args = [self.term(node[part]) for part in ("input", "lower", "upper")]
        if node["type"] != "COMPARE_BETWEEN" or not _numbers(args):
            return None
        return _condition("and", [_condition(">=", [value, low], node), _condition("<=", [value, high], node)], node)

    def _conjunction(self, node: Node) -> Term | None:
        args = [self.term(child) for child in node["children"]]
        return _condition(node["type"].removeprefix("CONJUNCTION_").casefold(), args, node) if _conditions(args) else None

    def _operator(self, node: Node) -> Term | None:
        args = [self.term(child) for child in node["children"]]
        match node["type"]:
            case "OPERATOR_NOT" if _conditions(args):
                return _condition("not", args, node)
            case "OPERATOR_IS_NULL" | "OPERATOR_IS_NOT_NULL" if _numbers(args) or _conditions(args):
                null = _condition("null", args, node)
                return null if node["type"] == "OPERATOR_IS_NULL" else _condition("not", [null], node)
            case "OPERATOR_COALESCE":
                return self._chosen("coalesce", tuple(args), args, node)
            case "COMPARE_IN" | "COMPARE_NOT_IN" if _numbers(args) and len(args) > 1:
                equal = [_condition("=", [args[0], arg], node) for arg in args[1:]]
                among = equal[0] if len(equal) == 1 else _condition("or", equal, node)
                return among if node["type"] == "COMPARE_IN" else _condition("not", [among], node)
        return None

    def _case(self, node: Node) -> Term | None:
        checks = [(self.term(check["when_expr"]), self.term(check["then_expr"])) for check in node["case_checks"]]
        otherwise = self.term(node["else_expr"])
        if not _conditions([condition for condition, _ in checks]):
            return None
        branches = [*(then for _, then in checks), otherwise]
        return self._chosen("case", (*(arg for check in checks for arg in check), otherwise), branches, node)

    def _chosen(self, op: str, args: tuple[Term, ...], branches: Sequence[Term], node: Node) -> Term | None:
        """A term that has the value of one of its branches."""
        if _conditions(branches):
            return _condition(op, args, node)
        if not _numbers(branches):
            return None
        return _arithmetic_term(op, args, node, branches)

    def _cast(self, node: Node) -> Term | None:
        of, type_ = self.term(node["child"]), node["type_expr"]
        if not of.number or of.kind == "null" or type_["class"] != "TYPE" or type_["catalog"] or type_["schema"]:
            return None
        name, sizes = type_["type_name"].upper(), [child.get("literal", {}).get("text", "") for child in type_["children"]]
        cast = Term("cast", "fraction", node, (of,), value=node["try_cast"], rounded=of.rounded)
        if name in ("DOUBLE", "FLOAT8") and not sizes:
            return cast
        if name in _INTEGERS and not sizes:
            limit = _INTEGERS[name]
            return replace(cast, kind="integer", low=-limit, high=limit - 1)
        if name in ("DECIMAL", "NUMERIC", "DEC") and all(size.isdecimal() for size in sizes):
            digits, scale = [*map(int, sizes), *((18, 3)[len(sizes) :] if not sizes else (0,))][:2]
            return replace(cast, kind="decimal", scale=scale, low=1 - 10**digits, high=10**digits - 1)
        return None

    def _sql(self, node: Node) -> Term:
        """What DuckDB computes, of its exact parts as columns."""
        parts: list[tuple[str, Term]] = []
        own = self._with_parts(node, parts, outermost=True)
        names, args = tuple(name for name, _ in parts), tuple(arg for _, arg in parts)
        schema = pa.schema([*self._others(), *(pa.field(name, arg.readable) for name, arg in parts)])
        sql = sql_text(own)
        try:
            type_ = self.sql_type(sql, schema)
        except DefinitionError:
            # A lambda, a list or an interval: a part that has no value of its own. The whole expression is checked elsewhere.
            return Term("sql", "other", own, args, value=sql, names=names, rounded=any(arg.rounded for arg in args))
        doubles = any(arg.kind == "fraction" or arg.rounded for arg in args) or _mixes_scales(own, schema)
        kind: TermKind = type_.kind if type_.kind in ("boolean", "integer", "decimal") else "other"
        digits = getattr(type_.arrow, "precision", 19)
        low, high = INT64 if pa.types.is_int64(type_.arrow) else (1 - 10**digits, 10**digits - 1)
        scale = getattr(type_.arrow, "scale", 0) if kind == "decimal" else 0
        rounded = doubles or self._computes_doubles(own, schema)
        return Term("sql", kind, own, args, scale, low, high, sql, names, type_, rounded)

    def _others(self) -> list[pa.Field]:
        return [field for field in self.fields if not pa.types.is_decimal256(field.type)]

    def _with_parts(self, tree: Any, parts: list[tuple[str, Term]], *, outermost: bool = False) -> Any:
        """The tree with columns in place of its largest exact parts."""
        if isinstance(tree, list):
            return [self._with_parts(child, parts) for child in tree]
        if not isinstance(tree, dict) or tree.get("class") in ("LAMBDA", "TYPE"):
            return tree
        if "class" in tree and not outermost:
            term = self.term(tree)
            if term.exact and term.reads and term.kind != "null":
                name = f"_x{next(self.numbers)}"
                parts.append((name, term))
                return _column(name)
        return {key: self._with_parts(value, parts) for key, value in tree.items()}

    def _computes_doubles(self, tree: Node, schema: pa.Schema) -> bool:
        """Whether a part that is more than a column is a double."""
        for node in nodes(tree):
            if node["class"] in ("FUNCTION", "OPERATOR", "CAST", "CASE") and node_columns(node) and not has_lambda(node):
                try:
                    type_ = self.sql_type(sql_text(node), schema)
                except DefinitionError:
                    continue
                if type_.kind == "float":
                    return True
        return False


def _numbers(args: Sequence[Term]) -> bool:
    return any(arg.kind != "null" for arg in args) and all(arg.number for arg in args)


def _conditions(args: Sequence[Term]) -> bool:
    return any(arg.kind == "boolean" for arg in args) and all(arg.kind in ("boolean", "null") for arg in args)


def _condition(op: str, args: Sequence[Term], node: Node) -> Term:
    return Term(op, "boolean", node, tuple(args), rounded=any(arg.rounded for arg in args))


def _arithmetic_term(op: str, args: Sequence[Term], node: Node, branches: Sequence[Term] | None = None) -> Term:
    """A number of the weakest kind of the branches, at their largest scale, within the bounds of all."""
    of = args if branches is None else branches
    rounded = any(arg.rounded for arg in args)
    if any(arg.kind == "fraction" for arg in of):
        return Term(op, "fraction", node, tuple(args), rounded=rounded)
    scale = max(arg.scale for arg in of)
    kind: TermKind = "decimal" if any(arg.kind == "decimal" for arg in of) else "integer"
    low, high = min(_rescale(arg.low, arg, scale) for arg in of), max(_rescale(arg.high, arg, scale) for arg in of)
    return Term(op, kind, node, tuple(args), scale, low, high, rounded=rounded)


def _arithmetic(name: str, args: Sequence[Term], node: Node) -> Term:
    first, second = args
    if name == "/" or any(arg.kind == "fraction" for arg in args):
        return Term(name, "fraction", node, tuple(args), rounded=first.rounded or second.rounded)
    result = _arithmetic_term(name, args, node)
    if name == "*":
        products = [arg * other for arg in (first.low, first.high) for other in (second.low, second.high)]
        result = replace(result, scale=first.scale + second.scale, low=min(products), high=max(products))
        if result.scale > DUCKDB_DIGITS:
            raise DefinitionError(
                f"has {result.scale} digits after the point; at most {DUCKDB_DIGITS}: CAST a factor AS DECIMAL(38, ...)"
            )
        return result
    least, most = [(_rescale(arg.low, arg, result.scale), _rescale(arg.high, arg, result.scale)) for arg in args]
    return replace(
        result,
        low=least[0] + most[0] if name == "+" else least[0] - most[1],
        high=least[1] + most[1] if name == "+" else least[1] - most[0],
    )


def _rescale(bound: int, term: Term, scale: int) -> int:
    return int(bound * 10 ** (scale - term.scale))


def _mixes_scales(tree: Node, schema: pa.Schema) -> bool:
    """Whether DuckDB may bring decimals to one scale, which rounds those that then have more than 38 digits."""
    for node in nodes(tree):
        children = node.get("arguments") or node.get("children") or ()
        read = [child.get("expression", child) for child in children if isinstance(child, dict)]
        decimals = [column for column in read if column.get("class") == "COLUMN_REF" and len(column["column_names"]) == 1]
        types = [schema.field(column["column_names"][0]).type for column in decimals if column["column_names"][0] in schema.names]
        if len(read) > 1 and any(pa.types.is_decimal(type_) for type_ in types) and len(types) > 1:
            return True
        if node["class"] in ("COMPARISON", "BETWEEN", "CASE") and any(
            pa.types.is_decimal(schema.field(column["column_names"][0]).type)
            for column in node_columns(node)
            if column["column_names"][0] in schema.names
        ):
            return True
    return False


def _column(name: str) -> Node:
    return {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "column_names": [name]}
