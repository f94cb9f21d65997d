"""All statements of a definitions.sql as one module of Python, with the place in the SQL of each of its lines."""

import builtins
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tandem.views import public
from tandem.views.definition_text import literal
from tandem.views.errors import listed
from tandem.views.sql_definitions.create_rollup import RollupText, rollup_text
from tandem.views.sql_definitions.create_source import SourceText, names_of_source, settings, source_text
from tandem.views.sql_definitions.create_table import TableText, table_text
from tandem.views.sql_definitions.create_view import ViewText, view_text
from tandem.views.sql_definitions.literals import constant
from tandem.views.sql_definitions.statements import Fragment, Script, line_and_column
from tandem.views.windows import AllTime

HEADING: Final = '"""Compiled from definitions.sql: edit that file."""'
"""The first line of a compiled module."""

_IMPORTS: Final[Mapping[str, Sequence[str]]] = {
    "datetime": ("date", "datetime", "time", "timedelta"),
    "decimal": ("Decimal",),
    "typing": ("Annotated", "Literal"),
    "uuid": ("UUID",),
    "tandem": tuple(vars(public)["__all__"]),
}
_IMPORTED: Final = frozenset(name for names in _IMPORTS.values() for name in names) | {"msgspec"}
_TAKEN: Final = _IMPORTED | set(dir(builtins)) | set(keyword.kwlist) | {"SOURCES", "VIEWS", "definitions", "definitions_sql"}
_BUILTINS: Final = frozenset({"bool", "bytes", "dict", "float", "int", "list", "str"})
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_MEMBER: Final = re.compile(r"    (\w+): ")
"""The beginning of a line that declares a field."""
_TEXTS: Final = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
_EXPECT: Final = "expect "
"""Begins the option that has a condition: WITH ('expect n > 0' = 'stop')."""

_STATEMENTS: Final = "CREATE SOURCE, CREATE VIEW, CREATE ROLLUP, CREATE TABLE and COMMENT ON are possible"


@dataclass(frozen=True)
class Compiled:
    """A module of Python, and where its lines and the parts of its views are in the SQL.

    * `lines`: for each line of the module the place in the SQL that it was made of, 0 for others.
    * `parts`: the places of keys, measures, window and filter, by view and `key 'city'`, `measure 'n'`, `window`, `where`.
    * `times`: by view, the time that its window names, with its place.
    """

    script: Script
    text: str
    lines: tuple[int, ...]
    parts: Mapping[str, Mapping[str, int]]
    times: Mapping[str, tuple[str, int]]

    def place(self, line: int) -> str:
        """`file:line:column` in the SQL for a line of the module."""
        start = self.lines[line - 1] if 0 < line <= len(self.lines) else 0
        return f"{self.script.file}:{':'.join(map(str, line_and_column(self.script.text, start)))}"


@dataclass
class _Definitions:
    """What the statements define, in their order; names ignore case, as SQL does."""

    sources: dict[str, SourceText] = field(default_factory=dict)
    views: dict[str, ViewText] = field(default_factory=dict)
    rollups: dict[str, RollupText] = field(default_factory=dict)
    tables: dict[str, TableText] = field(default_factory=dict)

    @property
    def every_view(self) -> dict[str, ViewText | RollupText | TableText]:
        """Views, then rollups, then tables."""
        return {**self.views, **self.rollups, **self.tables}

    def take(self, part: Fragment, name: str) -> str:
        """A name for a new definition. Raises DefinitionError if it is none, or taken."""
        if not _NAME.fullmatch(name):
            raise part.fault(f"{name!r} is not a name: a letter, then letters, digits and underscores")
        if name.casefold() in {**self.sources, **self.every_view}:
            raise part.fault(f"{name} is defined twice")
        return name


def compile_sql(sql: str, file: str, *, beside: bool = False) -> Compiled:
    """The module that a text of SQL means; with `beside` its views may be of sources in definitions.py.

    Raises DefinitionError with the place of what cannot be said.
    """
    script = Script(sql, file)
    definitions = _Definitions()
    for statement in script.statements():
        _define(statement, definitions)
    if not definitions.sources and not definitions.every_view and not beside:
        raise script.fault(f"nothing is defined; {_STATEMENTS}", 0)
    lines: list[tuple[str, int]] = []
    elsewhere = dict.fromkeys(_sources_elsewhere(definitions, beside=beside))
    for source in definitions.sources.values():
        lines += _source_lines(source)
    for table in definitions.tables.values():
        lines += _table_lines(table, definitions.sources)
    for view in definitions.views.values():
        lines += view_lines(view, definitions.sources, definitions.tables)
    for rollup in definitions.rollups.values():
        lines += _rollup_lines(rollup, definitions)
    every: tuple[tuple[str, Iterable[SourceText | ViewText | RollupText | TableText]], ...] = (
        ("SOURCES", definitions.sources.values()),
        ("VIEWS", definitions.every_view.values()),
    )
    for name, of in every:
        names = [_variable(item.name) for item in of]
        lines.append((f"{name} = ({', '.join(names)}{',' if len(names) == 1 else ''})", 0))
    lines, aliases = _with_aliases(lines)
    body = "\n".join([*aliases, *(text for text, _ in lines)])
    head = [HEADING, "", *imports_of(body, elsewhere), *(["", *aliases] if aliases else []), "", ""]
    return Compiled(
        script,
        "\n".join([*head, *(text for text, _ in lines), ""]),
        (*(0 for _ in head), *(start for _, start in lines)),
        {view.name: view.places for view in definitions.every_view.values()},
        {view.name: (view.time.text, view.time.start) for view in definitions.views.values() if view.time is not None},
    )


def _define(statement: Fragment, definitions: _Definitions) -> None:
    if statement.begins("COMMENT", "ON"):
        _comment(statement, definitions)
        return
    after = 2 if statement.begins("CREATE", "MATERIALIZED", "VIEW") else 1
    kind = statement.words[after].text.upper() if len(statement.words) > after else ""
    if not statement.begins("CREATE") or kind not in ("SOURCE", "VIEW", "ROLLUP", "TABLE"):
        raise statement.fault(f"{' '.join(word.text for word in statement.words[:2])} is not a definition; {_STATEMENTS}")
    head = statement.cut(after + 1)
    name = head.name()
    if name is None:
        raise statement.fault(f"the {kind.lower()} has no name")
    definitions.take(head, name)
    if kind == "SOURCE":
        classes = {item for source in definitions.sources.values() for item in names_of_source(source)}
        source = source_text(name, head.cut(1), set(_TAKEN) | classes)
        source.start = head.start
        definitions.sources[name.casefold()] = source
    elif kind == "ROLLUP":
        if not head.begins("AS", at=1):
            raise head.cut(1).fault(f"CREATE ROLLUP {name} is followed by AS SELECT ...")
        definitions.rollups[name.casefold()] = rollup_text(name, head.start, head.cut(2))
    elif kind == "TABLE":
        definitions.tables[name.casefold()] = table_text(name, head)
    else:
        definitions.views[name.casefold()] = _view(name, head)


def _view(name: str, head: Fragment) -> ViewText:
    """A view after its name: WITH (...), AS and its SELECT."""
    after, options = 1, dict[str, Fragment]()
    if head.begins("WITH", "(", at=1):
        inner, after = head.brackets(2)
        options = settings(inner)
    if not head.begins("AS", at=after):
        raise head.cut(after).fault(
            f"CREATE VIEW {name} is followed by AS SELECT ..., or WITH ('column.unit' = 'EUR') AS SELECT ..."
        )
    view = view_text(name, head.start, head.cut(after + 1))
    for option, value in options.items():
        if option.startswith(_EXPECT):
            view.expect[option.removeprefix(_EXPECT)] = constant(value)
            continue
        column, _, what = option.rpartition(".")
        kinds: Mapping[str, dict[str, Any]] = {"unit": view.units, "tolerance": view.tolerances}
        if what not in kinds:
            raise value.fault(
                f"unknown option {option!r} of a view; options: 'column.unit', 'column.tolerance', 'expect CONDITION'"
            )
        if column not in view.columns:
            raise value.fault(f"view {name} has no column {column!r}; columns: {listed(column, view.columns)}")
        kinds[what][column] = constant(value)
    return view


def _comment(statement: Fragment, definitions: _Definitions) -> None:
    """COMMENT ON VIEW sales IS 'text', COMMENT ON COLUMN sales.revenue IS 'text'."""
    is_ = statement.outside(lambda word: word.text.upper() == "IS")
    kind = statement.words[2].text.upper() if len(statement.words) > 2 else ""
    of = statement.cut(3, is_[0]) if is_ else statement
    names = [item.name() or "" for item in of.split(".")]
    described = definitions.every_view
    view = described.get(names[0].casefold())
    if not is_ or (kind, len(names)) not in (("VIEW", 1), ("COLUMN", 2)):
        raise statement.fault("a comment is COMMENT ON VIEW name IS 'text' or COMMENT ON COLUMN view.column IS 'text'")
    if view is None:
        have = listed(names[0], [item.name for item in described.values()])
        raise of.fault(f"no view {names[0]} before this comment; views: {have}")
    text = constant(statement.cut(is_[0] + 1))
    if isinstance(view, RollupText):
        if kind != "VIEW":
            raise of.fault(f"the columns of rollup {view.name} have the comments of its parent's")
        view.doc = text
        return
    if kind == "VIEW":
        view.doc = text
    elif names[1] in view.columns:
        view.docs[names[1]] = text
    else:
        raise of.fault(f"view {view.name} has no column {names[1]!r}; columns: {listed(names[1], view.columns)}")


def _sources_elsewhere(definitions: _Definitions, *, beside: bool) -> Iterator[str]:
    """The sources of views that the SQL does not define. Raises DefinitionError if there is no definitions.py to define them."""
    before = {name: view.name for name, view in definitions.views.items()}
    for rollup in definitions.rollups.values():
        name = rollup.parent.name() or ""
        if name.casefold() not in before:
            if not beside or name.casefold() in {**definitions.rollups, **definitions.sources, **definitions.tables}:
                have = listed(name, before.values())
                raise rollup.parent.fault(f"rollup {rollup.name}: no view {name!r} before it; views: {have}")
            yield name
        before[rollup.name.casefold()] = rollup.name
    of_sources: tuple[ViewText | TableText, ...] = (*definitions.views.values(), *definitions.tables.values())
    for view in of_sources:
        name = view.source.name() or ""
        if name.casefold() in definitions.sources or (isinstance(view, ViewText) and name.casefold() in definitions.tables):
            continue
        if name.casefold() in definitions.every_view and isinstance(view, TableText):
            raise view.source.fault(f"table {view.name}: {name} is a view; a table is of a source")
        if name.casefold() in definitions.every_view:
            raise view.source.fault(f"view {view.name}: {name} is a view; write CREATE ROLLUP {view.name} to unite its states")
        if not beside:
            have = listed(name, [source.name for source in definitions.sources.values()])
            raise view.source.fault(f"view {view.name}: no source {name!r}; sources: {have}")
        yield name


def _source_lines(source: SourceText) -> list[tuple[str, int]]:
    lines = [(line, source.start) for class_ in source.classes for line in (*class_, "", "")]
    variable = _variable(source.name)
    parameters = {**source.parameters, **({"name": literal(source.name)} if variable != source.name else {})}
    lines.append((f"{variable} = Source(", source.start))
    lines += [(f"    {name}={value},", source.start) for name, value in parameters.items()]
    return [*lines, (")", 0), ("", 0)]


def view_lines(
    view: ViewText, sources: Mapping[str, SourceText], tables: Mapping[str, TableText] | None = None
) -> list[tuple[str, int]]:
    """The lines that define a view, each with its place in the SQL; of a table it reads the rows."""
    variable, written = _variable(view.name), view.source.name() or ""
    source, table = sources.get(written.casefold()), (tables or {}).get(written.casefold())
    lines = [(f"{variable} = View(", view.start)]
    of = f"{_variable(table.name)}.rows()" if table is not None else _variable(source.name) if source is not None else written
    lines.append((f"    source={of},", view.source.start))
    if view.keys:
        lines.append(("    keys={", view.start))
        lines += [(f"        {literal(key)}: {literal(part.text)},", part.start) for key, part in view.keys.items()]
        lines.append(("    },", view.start))
    if not isinstance(view.window, AllTime):
        lines.append((f"    window={view.window},", view.places["window"]))
    lines.append(("    measures={", view.start))
    for name, measure in view.measures.items():
        lines.append((f"        {literal(name)}: {measure},", view.places[f"measure {name!r}"]))
    lines.append(("    },", view.start))
    rest: dict[str, Any] = {"where": None if view.where is None else view.where.text, "doc": view.doc}
    rest |= {"docs": view.docs, "units": view.units, "tolerances": view.tolerances, "expect": view.expect}
    rest |= {"name": view.name if variable != view.name else ""}
    lines += [(f"    {name}={_literal(value)},", view.start) for name, value in rest.items() if value]
    return [*lines, (")", 0), ("", 0)]


def _table_lines(table: TableText, sources: Mapping[str, SourceText]) -> list[tuple[str, int]]:
    """The lines that define a table."""
    variable, written = _variable(table.name), table.source.name() or ""
    source = sources.get(written.casefold())
    lines = [(f"{variable} = Table(", table.start)]
    lines.append((f"    {_variable(source.name) if source is not None else written},", table.source.start))
    for parameter, columns in (("key", table.key), ("fields", table.fields)):
        if columns:
            lines.append((f"    {parameter}={{", table.start))
            lines += [(f"        {literal(name)}: {literal(part.text)},", part.start) for name, part in columns.items()]
            lines.append(("    },", table.start))
    rest: dict[str, Any] = {**table.options, "where": None if table.where is None else table.where.text}
    rest |= {"doc": table.doc, "docs": table.docs, "name": table.name if variable != table.name else ""}
    lines += [(f"    {name}={_literal(value)},", table.start) for name, value in rest.items() if value]
    return [*lines, (")", 0), ("", 0)]


def _rollup_lines(rollup: RollupText, definitions: _Definitions) -> list[tuple[str, int]]:
    """The lines that define a rollup; its parent is defined before it, or in definitions.py."""
    variable, written = _variable(rollup.name), rollup.parent.name() or ""
    parent = definitions.every_view.get(written.casefold())
    lines = [(f"{variable} = rollup(", rollup.start)]
    lines.append((f"    {written if parent is None else _variable(parent.name)},", rollup.parent.start))
    if all(key.name() == name for name, key in rollup.keys.items()):
        lines.append((f"    keys={literal(tuple(rollup.keys))},", rollup.start))
    else:
        lines.append(("    keys={", rollup.start))
        lines += [(f"        {literal(name)}: {literal(key.text)},", key.start) for name, key in rollup.keys.items()]
        lines.append(("    },", rollup.start))
    if rollup.window is not None:
        lines.append((f"    window={rollup.window},", rollup.places.get("window", rollup.start)))
    lines.append((f"    measures={literal(tuple(rollup.measures))},", rollup.start))
    rest = {"doc": rollup.doc, "name": rollup.name if variable != rollup.name else ""}
    lines += [(f"    {name}={literal(value)},", rollup.start) for name, value in rest.items() if value]
    return [*lines, (")", 0), ("", 0)]


def _literal(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{literal(key)}: {literal(item)}' for key, item in value.items())}}}"
    return literal(value)


def _variable(name: str) -> str:
    """A definition's variable: its name, unless Python or the module uses it."""
    return f"{name}_" if name in _TAKEN else name


def _with_aliases(lines: Sequence[tuple[str, int]]) -> tuple[list[tuple[str, int]], list[str]]:
    """The lines with other names for types of which a field has the name, as in `date: _date | None = None`, and these names.

    In a class a name is the field from its default on, so the type of the next field would be None.
    """
    fields = {match[1] for text, _ in lines if (match := _MEMBER.match(text))}
    hidden = sorted(fields & (_IMPORTED | _BUILTINS))
    if not hidden:
        return list(lines), []
    words = re.compile(rf"{_TEXTS.pattern}|\b(?:{'|'.join(hidden)})\b")

    def alias(match: re.Match[str]) -> str:
        return match[0] if match[0][0] in "'\"" else f"_{match[0]}"

    return [
        (f"{member[0]}{words.sub(alias, text[member.end() :])}" if (member := _MEMBER.match(text)) else text, start)
        for text, start in lines
    ], [f"_{name} = {name}" for name in hidden]


def imports_of(body: str, elsewhere: Iterable[str] = ()) -> list[str]:
    """The imports that the code needs, with those of sources that definitions.py defines."""
    words = set(re.findall(r"[A-Za-z_]\w*", _TEXTS.sub("", body)))
    lines = [
        f"from {module} import {', '.join(sorted(words & set(names), key=str.casefold))}"
        for module, names in _IMPORTS.items()
        if words & set(names) and module != "tandem"
    ]
    lines += ["", "import msgspec"] if "msgspec" in words else []
    used = sorted(words & set(_IMPORTS["tandem"]), key=str.casefold)
    lines += ["", f"from tandem import {', '.join(used)}"] if used else []
    lines += [f"from definitions import {name}" for name in elsewhere]
    return lines[1:] if lines[:1] == [""] else lines
