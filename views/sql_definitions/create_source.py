"""CREATE SOURCE: columns as an event type, PRIMARY KEY as identity, WATERMARK as event time and lateness, WITH as the rest."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from types import FunctionType
from typing import Any, Final

from tandem.views.definition_text import literal
from tandem.views.errors import DefinitionError, listed
from tandem.views.source.event import Name, Scale, Unit
from tandem.views.source.format import entries
from tandem.views.source.formats import registry as formats
from tandem.views.source.record_filter import by_field, by_header
from tandem.views.source.source import Source
from tandem.views.source.time_notation import Epoch, Format, Zone
from tandem.views.sql_definitions.column_types import Classes, ColumnType, column_type, field_name, with_round_brackets
from tandem.views.sql_definitions.literals import Calls, constant, interval
from tandem.views.sql_definitions.statements import Fragment
from tandem.views.topic_names import pattern

_FORMATS: Final = {name: function for name, function in vars(formats).items() if isinstance(function, FunctionType)}
_CALLS: Final[Calls] = {"by_field": by_field, "by_header": by_header, "entries": entries}
_SAID: Final = ("event", "decoder", "identity", "event_time", "name")
"""Parameters of a source that other clauses say."""
_PYTHON: Final = ("prepare", "versions")
_OPTIONS: Final = tuple(part_.name for part_ in dataclasses.fields(Source) if part_.name not in (*_SAID, *_PYTHON))
_PATTERN: Final = "topic_pattern"
_TUPLES: Final = ("metadata", "plausible")
_MARKS: Final[Mapping[str, Callable[[Any], object]]] = {
    "name": Name,
    "unit": Unit,
    "zone": Zone,
    "format": Format,
    "epoch": Epoch,
}
_OF_COLUMN: Final = (*_MARKS, "rounding")


@dataclass
class SourceText:
    """A source as Python: its parameters, in their order, and the texts of its classes."""

    name: str
    start: int
    parameters: dict[str, str] = field(default_factory=dict)
    classes: list[list[str]] = field(default_factory=list)
    event_time: str = ""


def source_text(name: str, part: Fragment, taken: set[str]) -> SourceText:
    """What follows the name in CREATE SOURCE. Raises DefinitionError. `taken` are names that no class may have."""
    source = SourceText(name, part.start)
    if not part.begins("("):
        raise part.fault(f"the columns are missing: CREATE SOURCE {name} (order_id TEXT NOT NULL, ...)")
    columns, after = part.brackets(0)
    classes, fields, identity = Classes(taken), list[str](), list[str]()
    for column in with_round_brackets(columns).split(","):
        if column.begins("PRIMARY", "KEY", "("):
            identity += _key(column)
        elif column.begins("WATERMARK", "FOR"):
            source.event_time, lateness = _watermark(column)
            source.parameters |= lateness
        else:
            if _is_key(column):
                identity.append(field_name(column))
            fields.append(_field(column, classes, name))
            if fields[-1].partition(":")[0].casefold() in (part_.partition(":")[0].casefold() for part_ in fields[:-1]):
                raise column.fault(f"source {name} has two columns {column.name()}")
    if not fields:
        raise part.fault(f"source {name} has no columns")
    if not source.event_time:
        raise part.fault(f"source {name} has no event time: add WATERMARK FOR at to its columns, or WATERMARK FOR _append_time")
    options = _options(part.cut(after))
    event = classes.append([name], "Event", fields)
    source.classes = classes.texts
    values = {"topic": literal(name), "event": event, "event_time": literal(source.event_time)}
    values |= {"identity": literal(tuple(identity))} if identity else {}
    source.parameters = {**values, **source.parameters, **_parameters(options)}
    return source


def _key(column: Fragment) -> list[str]:
    """PRIMARY KEY (a, b), which may end with NOT ENFORCED."""
    inner, after = column.brackets(2)
    rest = column.cut(after)
    if rest.words and not (rest.begins("NOT", "ENFORCED") and len(rest.words) == 2):
        raise rest.fault(f"{rest.text} does not belong to a PRIMARY KEY")
    names = [part_.name() for part_ in inner.split(",")]
    if not names or None in names:
        raise inner.fault("a PRIMARY KEY names columns")
    return [name for name in names if name is not None]


def _is_key(column: Fragment) -> bool:
    """Whether a column ends with PRIMARY KEY."""
    return column.cut(-2).begins("PRIMARY", "KEY") if len(column.words) > 2 else False


def _watermark(column: Fragment) -> tuple[str, dict[str, str]]:
    """WATERMARK FOR time [AS time - INTERVAL '10 seconds']: the event time, and the lateness if it is given."""
    form = "a watermark has the form WATERMARK FOR at AS at - INTERVAL '10 seconds'"
    parts = column.cut(2)
    (number,) = parts.outside(lambda word: word.text.upper() == "AS")[:1] or [len(parts.words)]
    path = parts.cut(0, number)
    names = [part_.name() for part_ in path.split(".")]
    if not path.words or None in names:
        raise column.fault(form)
    time, rest = ".".join(map(str, names)), parts.cut(number + 1)
    if number == len(parts.words):
        return time, {}
    if [part_.text for part_ in rest.words[: len(path.words)]] != [part_.text for part_ in path.words]:
        raise rest.fault(form)
    rest = rest.cut(len(path.words))
    if not rest.words:
        return time, {"lateness": "timedelta(0)"}
    if not rest.begins("-", "INTERVAL"):
        raise rest.fault(form)
    return time, {"lateness": literal(interval(rest.cut(1)))}


def _field(column: Fragment, classes: Classes, source: str) -> str:
    """A column as a field: `name: annotation = default`."""
    name = field_name(column)
    texts, rest = column_type(column.cut(1), classes, [source, name])
    required, default, doc, options = False, "", "", dict[str, Fragment]()
    while rest.words:
        if rest.begins("NOT", "NULL"):
            required, rest = True, rest.cut(2)
        elif rest.begins("NULL"):
            rest = rest.cut(1)
        elif rest.begins("PRIMARY", "KEY"):
            rest = rest.cut(2)
        elif rest.begins("COMMENT") and len(rest.words) > 1:
            doc, rest = str(constant(rest.cut(1, 2))), rest.cut(2)
        elif rest.begins("OPTIONS", "("):
            inner, after = rest.brackets(1)
            options, rest = settings(inner), rest.cut(after)
        elif rest.begins("DEFAULT"):
            ends = rest.cut(1).outside(lambda word: word.text.upper() in ("NOT", "COMMENT", "OPTIONS", "PRIMARY"))
            end = ends[0] + 1 if ends else len(rest.words)
            default, rest = _default(rest.cut(1, end), texts), rest.cut(end)
        else:
            raise rest.fault(
                f"{rest.words[0].text} does not belong to a column; NOT NULL, DEFAULT, COMMENT, OPTIONS and PRIMARY KEY do"
            )
    annotation = _with_marks(texts, doc, options)
    if not required:
        annotation, default = f"{annotation} | None", default or "None"
    return f"{name}: {annotation}{f' = {default}' if default else ''}"


def _default(part: Fragment, texts: ColumnType) -> str:
    """A default as Python source; a number without DECIMAL before it is a decimal where the column has them."""
    value = constant(part)
    if isinstance(value, int | float) and texts.annotation.startswith("Annotated[Decimal"):
        return f"Decimal({literal(part.text.replace(' ', ''))})"
    return _text(value)


def _with_marks(texts: ColumnType, doc: str, options: Mapping[str, Fragment]) -> str:
    """The annotation with the marks of OPTIONS and COMMENT."""
    marks = []
    annotation = texts.annotation
    for name, value in options.items():
        values = constant(value)
        if name == "rounding":
            if not annotation.startswith("Annotated[Decimal, Scale("):
                raise value.fault(f"rounding belongs to a DECIMAL, not to {texts.name}")
            digits = annotation.removeprefix("Annotated[Decimal, Scale(").removesuffix(")]")
            _check(value, partial(Scale, int(digits), rounding=values))
            annotation = f"Annotated[Decimal, Scale({digits}, rounding={literal(values)})]"
        elif name in _MARKS:
            _check(value, partial(_MARKS[name], values))
            marks.append(f"{name.capitalize()}({literal(values)})")
        else:
            raise value.fault(f"unknown option {name!r} of a column; options: {listed(name, _OF_COLUMN)}")
    marks += [f"msgspec.Meta(description={literal(doc)})"] if doc else []
    if not marks:
        return annotation
    inner = annotation.removeprefix("Annotated[").removesuffix("]") if annotation.startswith("Annotated[") else annotation
    return f"Annotated[{', '.join([inner, *marks])}]"


def settings(part: Fragment) -> dict[str, Fragment]:
    """The values in `name = value, 'csv.header' = value`, by name. Raises DefinitionError."""
    texts: dict[str, Fragment] = {}
    for part_ in part.split(","):
        name, value = "", part_.cut(len(part_.words))
        if equals := part_.outside(lambda word: word.text == "="):
            name, value = "".join(word.text for word in part_.words[: equals[0]]), part_.cut(equals[0] + 1)
        if not name or not value.words:
            raise part_.fault(f"{part_.text} is not an option, such as topic = 'orders'")
        if name in texts:
            raise part_.fault(f"option {name!r} is given twice")
        texts[name] = value
    return texts


def _options(part: Fragment) -> dict[str, Fragment]:
    if not part.words:
        return {}
    if not part.begins("WITH", "("):
        raise part.fault(f"{part.words[0].text} does not follow the columns; WITH (topic = 'orders', format = 'json') does")
    inner, after = part.brackets(1)
    if after < len(part.words):
        raise part.cut(after).fault(f"{part.words[after].text} does not follow WITH (...); a statement ends with a semicolon")
    return settings(inner)


def _parameters(options: Mapping[str, Fragment]) -> dict[str, str]:
    """The parameters of Source that WITH says."""
    form = options.get("format")
    values = "json" if form is None else constant(form)
    if form is not None and values not in _FORMATS:
        have = listed(str(values), _FORMATS, limit=40)
        raise form.fault(f"unknown format {values!r}; formats: {have}; a decoder of your own needs definitions.py")
    of_format: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for name, value in options.items():
        prefix, _, option = name.partition(".")
        if name == "format":
            continue
        if prefix == values and option:
            names = signature(_FORMATS[values]).parameters
            option, _, member = option.partition(".")
            if option not in names:
                raise value.fault(f"unknown option {option!r} of format {values!r}; options: {listed(option, names)}")
            if not member:
                of_format[option] = constant(value)
            elif isinstance(members := of_format.setdefault(option, {}), dict):
                members[member] = constant(value)
            else:
                raise value.fault(f"option {option!r} is given as one value and by parts")
        elif name == _PATTERN:
            if "topic" in options:
                raise value.fault("topic_pattern and topic both say which topics the source reads; keep one")
            names = constant(value)
            _check(value, partial(pattern, names))
            texts["topic"] = str(pattern(names))
        elif name in _OPTIONS:
            value_of = constant(value, _CALLS)
            if name in _TUPLES and not isinstance(value_of, tuple):
                value_of = (value_of,)
            texts[name] = str(value_of) if name == "unnest" and not isinstance(value_of, str) else _text(value_of)
        elif name in _PYTHON:
            raise value.fault(f"{name} is code: write this source in definitions.py; definitions.sql can have views of it")
        else:
            raise value.fault(f"unknown option {name!r}; options: format, {listed(name, (*_OPTIONS, _PATTERN), limit=40)}")
    if form is not None:
        _check(form, lambda: _FORMATS[values](**of_format))
        texts["decoder"] = f"{values}({', '.join(f'{name}={literal(value)}' for name, value in of_format.items())})"
    return texts


def _text(value: Any) -> str:
    """A value as Python source; by_field(...) and by_header(...) as the calls that make them."""
    kind = type(value).__name__
    if kind in ("ByField", "ByHeader"):
        called = "by_field" if kind == "ByField" else "by_header"
        return f"{called}({', '.join(map(literal, (value.name, *value.values)))})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    return f"{kind}.fromisoformat({literal(value.isoformat())})" if kind in ("datetime", "date", "time") else literal(value)


def _check(part: Fragment, build: Callable[[], object]) -> None:
    """Raise the DefinitionError of a value at its place."""
    try:
        build()
    except (DefinitionError, TypeError) as error:
        raise part.fault(str(error)) from error


def names_of_source(source: SourceText) -> Sequence[str]:
    """The names of the classes of a source, which no other definition may have."""
    return [lines[0].split()[1].partition("(")[0] for lines in source.classes]
