"""A query of Spark, Flink or PostgreSQL as a view: rewritten to the grammar of definitions.sql, then compiled as that is."""

import re
from dataclasses import dataclass
from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from tandem.views.errors import DefinitionError
from tandem.views.sql.dialect_hints import hint, operations
from tandem.views.sql_definitions.compile import imports_of, view_lines
from tandem.views.sql_definitions.create_view import ViewText, view_text
from tandem.views.sql_definitions.group_dialects import group_window, lacks_zone
from tandem.views.sql_definitions.statements import Fragment, Script

DIALECTS: Final = {"flink": "", "spark": "spark", "postgres": "postgres"}
"""The dialects by the names that sqlglot has for them; it has none for Flink, whose SQL is Calcite's."""

_BOUNDS: Final = re.compile(r"(tumble|hop|session)_(start|end|rowtime)|window_(start|end|time)", re.IGNORECASE)
_TABLE_FUNCTIONS: Final = ("TUMBLE", "HOP", "SESSION", "CUMULATE")
_PARTS_OF_TABLE: Final = frozenset({"this", "db", "catalog", "alias", "only"})
"""What sqlglot has of a table in FROM that changes nothing of what is read."""
_BEFORE: Final = {"table": ("db", "catalog"), "db": ("catalog",), "catalog": ()}
"""The parts of a column's name that stand before each."""
_REFUSED: Final = {
    "with_": "WITH (a common table expression): a view reads one source; write the expressions themselves",
    "joins": "a join: a view reads one source",
    "laterals": "LATERAL: a view reads one source; Source(unnest=...) makes events of a list",
    "distinct": "DISTINCT: each combination of keys has one row",
    "having": "HAVING: it chooses among answers; ask for them with a condition, in `tandem sql`",
    "qualify": "QUALIFY: it chooses among answers; ask for them with a condition, in `tandem sql`",
    "order": "ORDER BY: a view has no order; `tandem query --order-by` has",
    "limit": "LIMIT: a view has all rows; `tandem query --limit` limits an answer",
    "windows": "WINDOW: window functions read other rows",
}


_RENAMED: Final = {"SESSION": "session_window", "WINDOW": "time_window"}
_PARTS: Final = ("expressions", "from_", "where", "group")
_INSIDE: Final = {
    exp.Window: "OVER: a window function reads other rows; a measure reads the events of its key and window",
    exp.Subquery: "a subquery: a view reads one source by its name",
    exp.Exists: "EXISTS: a view reads one source",
    exp.Unnest: "UNNEST: Source(unnest=...) makes events of a list",
}


@dataclass(frozen=True)
class TranslatedView:
    """A view of a query: as Python, as a statement of definitions.sql, and what to check, a sentence each."""

    name: str
    python: str
    sql: str
    notes: tuple[str, ...]


def translate(query: str, file: str, dialect: str, name: str) -> TranslatedView:
    """The view that a query means. Raises DefinitionError with the reason if there is none."""
    try:
        return _translation(query, file, dialect, name)
    except DefinitionError as error:
        message = str(error)
        raise DefinitionError(message if message.startswith(f"{file}:") else f"{file}: {message}") from error


def _translation(query: str, file: str, dialect: str, name: str) -> TranslatedView:
    statements = list(Script(query, file).statements())
    if len(statements) != 1:
        raise DefinitionError(f"{file}: one query is translated at a time; got {len(statements)}")
    name, select = _query(statements[0], name)
    text, window = _without_table_function(select) if dialect == "flink" else (select.text, "")
    tree = _parse(_without_keywords(text), file, dialect)
    notes: list[str] = []
    sql = _view_statement(tree, name, window, dialect, notes)
    (statement,) = Script(sql, name).statements()
    after = next(number for number in range(len(statement.words)) if statement.begins("AS", at=number)) + 1
    try:
        view = view_text(name, 0, statement.cut(after))
    except DefinitionError as error:
        raise DefinitionError(str(error).split(": ", 1)[1]) from error
    notes += _differences(view)
    body = "\n".join(line for line, _ in view_lines(view, {})).rstrip("\n")
    time = "" if view.time is None else f", whose event time is {view.time.text}"
    comments = [f"# `{tree.args['from_'].this.name}` is a Source of your definitions{time}.", *(f"# {note}" for note in notes)]
    return TranslatedView(name, "\n".join([*imports_of(body), "", *comments, body, ""]), sql, tuple(notes))


def _query(statement: Fragment, name: str) -> tuple[str, Fragment]:
    """The query after CREATE VIEW name AS or INSERT INTO name, with that name."""
    begin = next((number for number in range(len(statement.words)) if statement.begins("SELECT", at=number)), None)
    if statement.begins("WITH"):
        raise statement.fault(_REFUSED["with_"])
    if begin is None:
        raise statement.fault("a query begins with SELECT")
    head = statement.cut(0, begin)
    if head.begins("CREATE") or head.begins("INSERT"):
        before = [number for number in range(len(head.words)) if head.begins("VIEW", at=number) or head.begins("INTO", at=number)]
        name = next((each for number in before if (each := head.name(number + 1))), name)
    return name, statement.cut(begin)


def _without_table_function(select: Fragment) -> tuple[str, str]:
    """A query of Flink with the table alone in FROM, and the window of its windowing function, TUMBLE(time, size)."""
    for number in select.outside(lambda word: word.text.upper() == "FROM"):
        first = number + (3 if select.begins("TABLE", "(", at=number + 1) else 1)
        function = next((each for each in _TABLE_FUNCTIONS if select.begins(each, "(", at=first)), None)
        if function is None:
            continue
        inner, _ = select.brackets(first + 1)
        _, after = select.brackets(first + 1 if first == number + 1 else number + 2)
        table, time, *lengths = inner.split(",")
        table = table.cut(1) if table.begins("TABLE") else table
        column = time.brackets(1)[0] if time.begins("DESCRIPTOR", "(") else time
        if table.begins("DATA") or len(table.words) != 1:
            raise inner.fault(f"{function}(TABLE orders, DESCRIPTOR(at), ...) has one table, without PARTITION BY and names")
        rest = select.cut(after).text
        window = f"{function}({column.text}, {', '.join(length.text for length in lengths)})"
        return f"{select.cut(0, number + 1).text} {table.text} {rest}", window
    return select.text, ""


def _without_keywords(text: str) -> str:
    """The query with names for its window functions that sqlglot takes for names of functions at every place."""
    (query,) = Script(text, "").statements()
    for number in reversed(range(len(query.words))):
        called = next((name for name in ("SESSION", "WINDOW") if query.begins(name, "(", at=number)), None)
        if called is not None:
            word = query.words[number]
            text = f"{text[: word.start]}{_RENAMED[called]}{text[word.end + 1 :]}"
    return text


def _parse(text: str, file: str, dialect: str) -> exp.Select:
    try:
        tree = sqlglot.parse_one(text, read=DIALECTS[dialect] or None)
    except (ParseError, TokenError) as error:
        message = re.sub(r"\x1b\[\d+m", "", str(error)).split("\n")[0].removesuffix(".")
        raise DefinitionError(f"{file}: this is not a query of {dialect} that can be read: {message}") from error
    if not isinstance(tree, exp.Select):
        raise DefinitionError(f"{file}: a view is one SELECT, and this is {tree.key.upper()}")
    for part in (part for part, value in tree.args.items() if value and part not in _PARTS):
        raise DefinitionError(f"{file}: {_REFUSED.get(part) or f'{part.upper()}: a view has SELECT, FROM, WHERE and GROUP BY'}")
    for kind, reason in _INSIDE.items():
        if tree.find(kind) is not None:
            raise DefinitionError(f"{file}: {reason}")
    if group := [part for part, value in (tree.args.get("group") or exp.Group()).args.items() if value and part != "expressions"]:
        raise DefinitionError(f"GROUP BY with {group[0].replace('_', ' ').upper()}: a view has one set of keys")
    source = tree.args.get("from_")
    if source is None or not isinstance(source.this, exp.Table) or not isinstance(source.this.this, exp.Identifier):
        raise DefinitionError(f"{file}: a view reads one source by its name, without subqueries and functions")
    if clauses := [part for part, value in source.this.args.items() if value and part not in _PARTS_OF_TABLE]:
        raise DefinitionError(f"{file}: FROM has {clauses[0].upper()}; a view reads all events of its source")
    return tree


def _view_statement(tree: exp.Select, name: str, window: str, dialect: str, notes: list[str]) -> str:
    """The query as CREATE VIEW in the grammar of definitions.sql."""
    table = tree.args["from_"].this
    for column in tree.find_all(exp.Column):
        for part in ("table", "db", "catalog"):  # orders.city, or orders.address.street
            if column.text(part) in (table.name, table.alias) and not any(map(column.text, _BEFORE[part])):
                column.set(part, None)
                break
    items = {_name_of(item): item.unalias() for item in tree.expressions}
    if len(items) < len(tree.expressions):
        raise DefinitionError("two columns have one name, or none; give each its own with AS")
    group = tree.args.get("group")
    windows, keys = [window] if window else [], list[str]()
    bounds = {key for key, item in items.items() if _bounds_window(item)}
    is_grouped = False
    for item in group.expressions if group is not None else ():
        key, grouped = _item_of(item, items, dialect)
        of_time = None if _bounds_window(grouped) else group_window(grouped)
        if _bounds_window(grouped):
            bounds.add(key or grouped.name)
            is_grouped = True
        elif of_time is not None:
            windows.append(of_time.sql)
            bounds |= {each for each, other in items.items() if other == grouped}
        else:
            keys.append(key)
    if dialect == "spark" and windows and items.get("window") == exp.column("window"):
        bounds.add("window")
    if bounds and not windows:
        raise DefinitionError(f"{', '.join(sorted(bounds))}: the query has no window; group by one, or use its table function")
    if dialect != "flink" and any(map(lacks_zone, tree.find_all(exp.TimestampTrunc, exp.DateTrunc))):
        notes.append(f"Check: times are truncated in UTC here, and in the zone of the session in {dialect}.")
    if any(each.startswith("SESSION(") for each in windows):
        notes.append(
            f"Check: an event exactly the gap after the last event begins a session here, and continues it in {dialect}."
        )
    if window and not is_grouped:
        raise DefinitionError(f"the query does not group by its window {window}; add window_start, window_end to GROUP BY")
    if len(set(windows)) > 1:
        raise DefinitionError(f"a view has one window; got {', '.join(windows)}")
    notes += [
        f"{key} is window_start or window_end of each answer."
        for key in bounds
        if key not in ("window_start", "window_end", "window")
    ]
    lines = [f"{_aggregate_text(item)} AS {_in_quotes(key)}" for key, item in items.items() if key not in bounds]
    where = f"\nWHERE {tree.args['where'].this.sql('duckdb')}" if tree.args.get("where") else ""
    grouping = [*map(_in_quotes, keys), *dict.fromkeys(windows)]
    by = f"\nGROUP BY {', '.join(grouping)}" if grouping else ""
    select = ",\n    ".join(lines)
    return f"CREATE VIEW {name} AS\nSELECT {select}\nFROM {table.name}{where}{by};\n"


def _item_of(item: exp.Expression, items: dict[str, Any], dialect: str) -> tuple[str, exp.Expression]:
    """The name and expression of the column that an item of GROUP BY is. Raises DefinitionError if SELECT lacks it."""
    if isinstance(item, exp.Literal) and not item.is_string:
        number = int(item.name)
        if not 0 < number <= len(items):
            raise DefinitionError(f"GROUP BY {number}: the query has {len(items)} columns")
        return list(items.items())[number - 1]
    if isinstance(item, exp.Column) and item.name in items:
        expression = items[item.name]
        if expression != item and any(column.name == item.name for column in expression.find_all(exp.Column)):
            raise DefinitionError(
                f"GROUP BY {item.name} means the field {item.name} in {dialect}, not {expression.sql()} AS {item.name}; write "
                f"GROUP BY {expression.sql()} if that is meant"
            )
        return item.name, expression
    for key, expression in items.items():
        if expression == item:
            return key, expression
    if _bounds_window(item) or group_window(item) is not None:
        return "", item
    raise DefinitionError(f"GROUP BY has {item.sql()}, which SELECT lacks; add it there, because a view shows its keys")


def _bounds_window(node: exp.Expression) -> bool:
    """Whether an expression is a bound of the window, which every answer has."""
    if isinstance(node, exp.Anonymous):
        return _BOUNDS.fullmatch(str(node.this)) is not None
    if isinstance(node, exp.Column):
        return _BOUNDS.fullmatch(node.name) is not None or (node.table.lower() == "window" and node.name in ("start", "end"))
    return False


def _aggregate_text(node: exp.Expression) -> str:
    """An expression in DuckDB's SQL, with its aggregates under the names of definitions.sql."""

    def rewrite(part: exp.Expression) -> exp.Expression:
        if isinstance(part, exp.CountIf):
            return exp.Filter(this=exp.Count(this=exp.Star()), expression=exp.Where(this=part.this))
        return part

    return node.copy().transform(rewrite).sql("duckdb")


def _name_of(node: exp.Expression) -> str:
    """The column's own name or alias, else a new name: `sum_amount`, `count`."""
    if node.alias or isinstance(node, exp.Column | exp.Dot | exp.Star):
        return node.alias_or_name
    columns = "_".join(column.name for column in node.find_all(exp.Column))
    return re.sub(r"\W+", "_", f"{node.key}_{columns}".strip("_"))


def _in_quotes(name: str) -> str:
    return f'"{name}"'


def _differences(view: ViewText) -> list[str]:
    """What the operations of the view's expressions mean here and elsewhere, a sentence each, where that differs."""
    texts = [part.text for part in view.keys.values()] + ([] if view.where is None else [view.where.text])
    for measure in view.measures.values():
        texts += [measure.expression] if hasattr(measure, "expression") and not measure.inputs else list(measure.inputs)
    names = dict.fromkeys(operation for text in texts for operation in operations(text))
    return [f"Check: {sentence}." for operation in names if (sentence := hint(operation)) is not None]
