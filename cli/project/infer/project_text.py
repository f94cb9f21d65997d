"""The files of a project for a sample: definitions as a person would write them, and their test."""

import ast
import keyword
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, Final
from uuid import UUID

import msgspec

from tandem.cli.project.infer.field_type import STRUCT, FieldType
from tandem.cli.project.infer.file_sample import quote
from tandem.cli.project.infer.first_view import ZONE, FirstView
from tandem.cli.project.infer.sample import FileSample
from tandem.views import public
from tandem.views.project.python_code import parsed
from tandem.views.source.source import PLAUSIBLE
from tandem.views.sql import engine

_STANDARD: Final = {
    "UTC": "datetime",
    "date": "datetime",
    "datetime": "datetime",
    "Decimal": "decimal",
    "Annotated": "typing",
    "Literal": "typing",
    "time": "datetime",
    "timedelta": "datetime",
    "UUID": "uuid",
}
_PUBLIC: Final[frozenset[str]] = frozenset(vars(public)["__all__"])
_MOST_WIDTH: Final = 120
_SHORT: Final = 3
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_UP_TO_MINUTES: Final = 5


@dataclass
class _Names:
    """Names that the definitions have taken, and the fields' own names by the keys that lead to them."""

    taken: set[str] = field(default_factory=lambda: {"SOURCES", "VIEWS", *_STANDARD, *_PUBLIC})
    attributes: dict[tuple[str, ...], str] = field(default_factory=dict)

    def take(self, name: str) -> str:
        """The name, with a number if it is taken."""
        free, number = name, 2
        while free in self.taken:
            free, number = f"{name}_{number}", number + 1
        self.taken.add(free)
        return free

    def take_class(self, name: str) -> str:
        """The name of a class, as a person would change it if it is taken: EventRecord for the rows of a file of events."""
        return self.take(f"{name}Record" if name in self.taken else name)

    def attribute(self, path: tuple[str, ...]) -> str:
        """The attributes that lead to a column, with dots."""
        return ".".join(self.attributes[path[: depth + 1]] for depth in range(len(path)))


@dataclass(frozen=True)
class ProjectText:
    """The text of definitions.py, and the names that its test needs; `counter` is the measure that counts events."""

    definitions: str
    source: str
    view: str
    counter: str
    has_identity: bool


def definitions_text(name: str, file: str, sample: FileSample, first: FirstView, zone: str) -> ProjectText:
    """The definitions for a file: event types, a source, a view. `name` becomes the source's.

    `zone` is that of days and months, and of a date's midnight.
    """
    names = _Names()
    source = names.take(identifier(name.lower()))
    classes = _Classes(first.event_time.path, zone, names)
    event = classes.append(class_name(name, singular=True), sample.columns, ())
    by = f"_by_{names.attribute(first.key.path).rpartition('.')[2]}" if first.key is not None else "_in_time"
    view = names.take(f"{source}{by}")
    measures = _measures(source, first, names)
    parts = [
        *classes.texts,
        f"{_source(source, event, sample, first, names)}\n\n{_view(view, source, first, measures, names)}",
    ]
    body = "\n\n\n".join(parts).replace(ZONE, zone) + f"\n\nSOURCES = ({source},)\nVIEWS = ({view},)\n"
    opening = f'"""Sources and views, begun from {file}: the comments name each guess."""'
    text = f"{opening}\n\n{definition_imports(body)}\n\n\n{body}"
    return ProjectText(text, source, view, next(iter(measures)), first.identity is not None)


def class_name(name: str, *, singular: bool) -> str:
    """A class for what `name` calls; with `singular` for one of several, as a person would: Order for orders."""
    words = [word for word in re.split(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])", identifier(name)) if word]
    text = "".join(word[:1].upper() + word[1:] for word in words) or "Record"
    if singular and len(text) > _SHORT:
        text = text[:-3] + "y" if text.endswith("ies") else text[:-1] if re.search(r"[^sui]s$", text) else text
    text = text if text[0].isalpha() else f"Record{text}"
    return f"{text}Record" if keyword.iskeyword(text) else text


def identifier(text: str) -> str:
    """The text as a name of Python: `us_gross` for `US Gross`, if it is none itself."""
    if _NAME.fullmatch(text) and not keyword.iskeyword(text):
        return text
    letters = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^A-Za-z0-9]+", "_", letters).strip("_").lower() or "field"
    name = name if name[0].isalpha() else f"field_{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


@dataclass
class _Classes:
    """The texts of event types, inner ones first."""

    event_time: tuple[str, ...]
    zone: str
    names: _Names
    texts: list[str] = field(default_factory=list)

    def append(self, name: str, members: Mapping[str, FieldType], path: tuple[str, ...]) -> str:
        """Append a class for these members, after those that it needs; returns its name. `path` are the keys that lead to it."""
        class_ = self.names.take_class(name)
        fields: set[str] = set()
        lines: list[str] = []
        last: list[str] = []
        for key, of in members.items():
            if not of.annotation or not _nameable(key):
                last.append(f"    # {quote(key)} is left out: {of.note or 'no field can have this name'}.")
                continue
            attribute = free_name(identifier(key), fields)
            self.names.attributes[*path, key] = attribute
            text = self._field(attribute, key, of, (*path, key))
            # A field with a default comes after those without.
            (last if text[-1].endswith(" = None") else lines).extend(text)
        self.texts.append("\n".join([f"class {class_}(Event):", *lines, *last]))
        return class_

    def _field(self, attribute: str, key: str, of: FieldType, path: tuple[str, ...]) -> list[str]:
        """The lines of a field, with comments before it."""
        notes = [of.note] if of.note else []
        annotation = of.annotation
        if of.kind == "struct":
            name = class_name(key, singular=annotation != STRUCT)
            annotation = annotation.replace(STRUCT, self.append(name, dict(of.members), path))
        if path == self.event_time:
            annotation = _with_zone(annotation, of, self.zone)
            notes += [f"its days begin in the zone {self.zone}"] if of.kind == "date" else []
            notes += ["rows without it are rejected"] if of.missing or of.absent else []
        annotation = annotation if attribute == key else with_mark(annotation, f"Name({quote(key)})")
        if (of.missing or of.absent) and path != self.event_time:
            annotation += " | None" + (" = None" if of.absent else "")
        return [*(f"    # {note[:1].upper()}{note[1:]}." for note in notes), f"    {attribute}: {annotation}"]


def free_name(name: str, fields: set[str]) -> str:
    """The name, with a number if a field has it in any case, which SQL ignores; it is added to the fields."""
    free, number = name, 2
    while free.casefold() in fields:
        free, number = f"{name}_{number}", number + 1
    fields.add(free.casefold())
    return free


def _nameable(key: str) -> bool:
    return bool(key.strip()) and key.isprintable() and '"' not in key and "\\" not in key


def with_mark(annotation: str, mark: str) -> str:
    """The annotation with one more mark, such as a name."""
    return f"{annotation[:-1]}, {mark}]" if annotation.startswith("Annotated[") else f"Annotated[{annotation}, {mark}]"


def _with_zone(annotation: str, of: FieldType, zone: str) -> str:
    """The type of the event time: a date's day begins somewhere."""
    return with_mark(annotation, f'Zone("{zone}")') if of.kind == "date" else annotation


def _source(source: str, event: str, sample: FileSample, first: FirstView, names: _Names) -> str:
    lines = [
        f"    topic={quote(sample.topic or source)},",
        f"    event={event},",
        f"    event_time={quote(names.attribute(first.event_time.path))},",
    ]
    if first.identity is not None:
        lines.append(f"    # A row that comes twice counts once: no two different rows have the same {first.identity.path[-1]}.")
        lines.append(f"    identity=({quote(names.attribute(first.identity.path))},),")
    else:
        lines.append("    # Every row counts. Where a sender may repeat one, name the fields that tell it from others:")
        lines.append('    # identity=("...",)')
    if sample.decoder:
        lines.append(f"    decoder={sample.decoder},")
    if (span := first.event_time.type.span) and not (PLAUSIBLE[0] <= span[0] and span[1] < PLAUSIBLE[1]):
        low, high = min(span[0].year // 10 * 10, 2000), max(span[1].year // 10 * 10 + 10, 2100)
        lines.append(f"    plausible=(datetime({max(low, 1)}, 1, 1, tzinfo=UTC), datetime({min(high, 9999)}, 1, 1, tzinfo=UTC)),")
    head = [f"# {sample.note[:1].upper()}{sample.note[1:]}."] if sample.note else []
    return "\n".join([*head, f"{source} = Source(", *lines, ")"])


def _measures(source: str, first: FirstView, names: _Names) -> dict[str, str]:
    taken = {"window_start", "window_end", "window_state"}
    if first.key is not None:
        taken.add(names.attribute(first.key.path).rpartition(".")[2].casefold())
    counter = source if source not in taken else f"{source}_count"
    measures = {counter: "count()"}
    for column in first.measured:
        attribute = names.attribute(column.path)
        last = attribute.rpartition(".")[2]
        functions = ("mean", "maximum") if column.type.kind == "double" else ("total", "maximum")
        for function in functions:
            measures[f"{function}_{last}"] = f"{function}({quote(sql_name(attribute))})"
    return measures


def _view(view: str, source: str, first: FirstView, measures: Mapping[str, str], names: _Names) -> str:
    lines = [f"    source={source},"]
    if first.key is not None:
        attribute = names.attribute(first.key.path)
        lines.append(f"    keys={{{quote(attribute.rpartition('.')[2])}: {quote(sql_name(attribute))}}},")
    lines.append(f"    window={first.window},")
    lines.append("    measures={")
    lines.extend(f"        {quote(name)}: {measure}," for name, measure in measures.items())
    return "\n".join([f"{view} = View(", *lines, "    },", ")"])


def sql_name(attribute: str) -> str:
    """The attribute as SQL names it."""
    words = _sql_words()
    return ".".join(f'"{part}"' if part.lower() in words else part for part in attribute.split("."))


@cache
def _sql_words() -> frozenset[str]:
    """The words that SQL does not take as a name without quotes."""
    sql = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')"
    return frozenset(str(row[0]) for row in engine.connection().execute(sql).fetchall())


def definition_imports(body: str) -> str:
    """The imports of the names that a text uses."""
    used = {node.id for node in ast.walk(parsed(body)) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    modules: dict[str, list[str]] = {}
    for name in sorted(used & _STANDARD.keys()):
        modules.setdefault(_STANDARD[name], []).append(name)
    standard = [_from(module, several) for module, several in sorted(modules.items())]
    platform = sorted(name for name in used & _PUBLIC if name not in _STANDARD)
    return "\n".join(standard) + "\n\n" + _from("tandem", platform)


def _from(module: str, names: Iterable[str]) -> str:
    """An import, on several lines if it is long."""
    several = sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    line = f"from {module} import {', '.join(several)}"
    return line if len(line) <= _MOST_WIDTH else f"from {module} import (\n" + "".join(f"    {name},\n" for name in several) + ")"


def check_text(file: str, text: ProjectText, events: Sequence[Any]) -> str:
    """The test of the definitions, with events of the file."""
    literals = [literal(event) for event in events]
    constants = [f"{name} = {written}" for name, written in zip(("FIRST", "SECOND"), literals, strict=False)]
    several = ", ".join(("FIRST", "SECOND")[: len(events)])
    body = "\n".join(constants) + "\n\n\n"
    body += "def test_every_event_counts() -> None:\n"
    body += f"    assert sum(row[{quote(text.counter)}] for row in answer({text.view}, [{several}])) == {len(events)}\n"
    if text.has_identity:
        body += "\n\ndef test_an_event_that_comes_twice_counts_once() -> None:\n"
        body += f"    assert answer({text.view}, [{several}, FIRST]) == answer({text.view}, [{several}])\n"
    body += "\n\ndef test_rows_are_the_same_wherever_batch_and_speed_layer_meet(tandem_checked_answer: Answer) -> None:\n"
    body += '    """The fixture compares the rows with a plain oracle: for all events, and split at every cut."""\n'
    body += f"    assert tandem_checked_answer({text.view}, [{several}])\n"
    classes = sorted({type(value).__name__ for event in events for value in _structs(event)})
    definitions = (
        f"from definitions import {', '.join(sorted([*classes, text.view], key=lambda name: (not name[0].isupper(), name)))}"
    )
    standard = definition_imports(body).partition("\n\n")[0]
    return (
        f'"""Tests of the definitions with events of {file}, without Java or Kafka."""\n\n'
        + (f"{standard}\n\n" if standard else "")
        + f"{definitions}\n\nfrom tandem.testing import Answer, answer\n\n"
        + body
    )


def _structs(value: Any) -> Iterable[Any]:
    if isinstance(value, msgspec.Struct):
        yield value
        for name in value.__struct_fields__:
            yield from _structs(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            yield from _structs(item)


def literal(value: Any) -> str:
    """The Python text of a field's value."""
    match value:
        case msgspec.Struct():
            parts = [f"{name}={literal(getattr(value, name))}" for name in value.__struct_fields__]
            return f"{type(value).__name__}({', '.join(parts)})"
        case datetime():
            utc = value.astimezone(UTC)
            numbers = [utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond]
            while len(numbers) > _UP_TO_MINUTES and numbers[-1] == 0:
                numbers.pop()
            return f"datetime({', '.join(map(str, numbers))}, tzinfo=UTC)"
        case time():
            return f"time({value.hour}, {value.minute}, {value.second}, {value.microsecond})"
        case timedelta():
            return f"timedelta({value.days}, {value.seconds}, {value.microseconds})"
        case dict():
            return f"{{{', '.join(f'{quote(key)}: {literal(item)}' for key, item in value.items())}}}"
        case date():
            return f"date({value.year}, {value.month}, {value.day})"
        case Decimal():
            return f"Decimal({quote(str(value))})"
        case UUID():
            return f"UUID({quote(str(value))})"
        case Enum():
            return str(value)
        case str():
            return quote(value)
        case list():
            return f"[{', '.join(map(literal, value))}]"
        case _:
            return repr(value)
