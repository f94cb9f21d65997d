"""The project for changes of a table: its rows as events, the table that they make, and a view of the changes."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from tandem.cli.project.infer.change_sample import ChangeSample
from tandem.cli.project.infer.example_events import example_event
from tandem.cli.project.infer.file_sample import quote
from tandem.cli.project.infer.project_text import (
    class_name,
    definition_imports,
    free_name,
    identifier,
    literal,
    sql_name,
    with_mark,
)
from tandem.cli.project.infer.tried_project import ProjectForFile
from tandem.cli.project.try_view import TOPIC, trial
from tandem.cli.records.bundles import BundledValue
from tandem.infra import clock
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.views.decode.sample_records import as_records
from tandem.views.decode.value_parsers import parse_values
from tandem.views.project.project import load_files
from tandem.views.source.source import Source

_ABOUT: Final = (
    ("op", "str", "__op", "What happened: c, u and d are created, updated and deleted; r is a row of the snapshot"),
    ("deleted", "bool", "__deleted", ""),
)
_LSN: Final = ("lsn", "int", "__lsn", "The place of the change in the database's log")


class _ChangesText(NamedTuple):
    """The text of definitions.py, and the names that its test needs: `deleted` is the field that says that a row is gone."""

    definitions: str
    source: str
    table: str
    deleted: str
    op: str


def project_for_changes(
    name: str,
    origin: str,
    sample: ChangeSample,
    values: Sequence[bytes],
    schemas: RegistrySchemas,
    *,
    topic: str = "",
    toml: str = "",
) -> ProjectForFile:
    """The project for changes of a table, tried on `values`. Raises RegistryAway."""
    text = _text(name, origin, topic, sample)
    files = {"definitions.py": text.definitions.encode(), "tandem.toml": toml.encode()}
    project = load_files(files)
    source = project.sources[text.source]
    bundles = (BundledValue(value, number, len(value)) for number, value in enumerate(values, 1))
    tried = trial(project.every_view[text.table], bundles, at=clock.now(), schemas=schemas)
    row = _example_row([*_events(source, values, schemas)], source.event, text.deleted)
    return ProjectForFile({**files, "test_definitions.py": _test(text, row).encode()}, text.source, text.table, tried)


def _events(source: Source, values: Sequence[bytes], schemas: RegistrySchemas) -> Iterator[Any]:
    if values:
        ready = schemas.ready_for(source, values)
        records = as_records(ready, values, topic_id=TOPIC, offsets=range(len(values)), at=clock.now())
        yield from parse_values(ready, ready.event, ready.decoder, records.combine_chunks().to_batches()[0])[0].values()


def _text(name: str, origin: str, topic: str, sample: ChangeSample) -> _ChangesText:
    source, event = identifier(name.lower()), class_name(name, singular=True)
    table = f"{source}_now" if source == identifier(event.lower()) else identifier(event.lower())
    taken: set[str] = set()
    columns = {key: free_name(identifier(key), taken) for key, of in sample.columns.items() if of.annotation}
    when = "__source_ts_us" if "ts_us" in sample.source else "__source_ts_ms"
    about = [("changed", "datetime", when, "When the database committed the change"), *_ABOUT]
    about += [_LSN] if "lsn" in sample.source else []
    named = {attribute: free_name(attribute, taken) for attribute, *_ in about}
    fields = [_field(columns[key], key, sample.columns[key].annotation, "", sample.columns[key].note) for key in sample.key]
    fields += [_field(named[attribute], key, annotation, "", note) for attribute, annotation, key, note in about]
    fields += [
        _field(columns[key], key, of.annotation, " | None = None", of.note)
        if key in columns
        else [f"    # {quote(key)} is left out: {of.note or 'no field can have this type'}."]
        for key, of in sample.columns.items()
        if key not in sample.key
    ]
    keys = [columns[key] for key in sample.key]
    parameters = [f"topic={quote(topic or source)}", f"event={event}", f"event_time={quote(named['changed'])}"]
    if "lsn" in named:  # Debezium sends a change again after a crash
        parameters.append(f"identity=({', '.join(map(quote, (named['lsn'], *keys, named['op'])))})")
    parameters.append(f"decoder={sample.decoder}")
    lists = {columns[key] for key, of in sample.columns.items() if key in columns and of.annotation.startswith("list[")}
    rows = [f"key={{{_expressions(keys)}}}", f"gone={quote(named['deleted'])}", 'order="log"']
    if lists:
        rows.insert(1, f"fields={{{_expressions(each for each in columns.values() if each not in {*keys, *lists})}}}")
    body = [
        f"class {event}(Event):",
        *(line for lines in fields for line in lines),
        "",
        "",
        f"{source} = Source(",
        *(f"    {parameter}," for parameter in parameters),
        ")",
        "",
        *(["# No record says which columns are the primary key: check this guess."] if sample.guessed else []),
        *([f"# Its rows have no lists: {', '.join(sorted(lists))}. array_to_string(...) makes a text of one."] if lists else []),
        f"{table} = Table(",
        f"    {source},",
        *(f"    {each}," for each in rows),
        ")",
        f"{source}_by_op = View(",
        f"    source={source},",
        f'    keys={{"op": {quote(named["op"])}}},',
        '    measures={"changes": count()},',
        ")",
        "",
        f"SOURCES = ({source},)",
        f"VIEWS = ({table}, {source}_by_op)",
    ]
    text = "\n".join(body) + "\n"
    opening = f'"""A table of a database, by the changes that Debezium captures; begun from {origin}."""'
    return _ChangesText(f"{opening}\n\n{definition_imports(text)}\n\n\n{text}", source, table, named["deleted"], named["op"])


def _expressions(names: Iterable[str]) -> str:
    """Fields as expressions by name."""
    return ", ".join(f"{quote(name)}: {quote(sql_name(name))}" for name in names)


def _field(attribute: str, key: str, annotation: str, end: str, note: str) -> list[str]:
    kind = annotation if attribute == key else with_mark(annotation, f"Name({quote(key)})")
    return [*([f"    # {note[:1].upper()}{note[1:]}."] if note else []), f"    {attribute}: {kind}{end}"]


def _test(text: _ChangesText, row: Any) -> str:
    """The test of the definitions, with a row of the changes."""
    name, written = type(row).__name__, literal(row)
    imports = definition_imports(f"ROW = {written}\n").partition("\n\n")[0]
    return (
        '"""Tests of the definitions with a row of the table, without Java or Kafka."""\n\n'
        + (f"{imports}\n\n" if imports else "")
        + f"from definitions import {name}, {text.table}\nfrom msgspec.structs import replace\n\n"
        "from tandem.testing import Answer, answer\n\n"
        f"ROW = {written}\n\n\n"
        "def test_a_row_is_there_until_it_is_deleted() -> None:\n"
        f"    assert len(answer({text.table}, [ROW])) == 1\n"
        f"    assert answer({text.table}, [ROW, replace(ROW, {text.deleted}=True, {text.op}={quote('d')})]) == []\n\n\n"
        "def test_rows_are_the_same_wherever_batch_and_speed_layer_meet(tandem_checked_answer: Answer) -> None:\n"
        '    """The fixture compares the rows with a plain oracle: for all events, and split at every cut."""\n'
        f"    assert tandem_checked_answer({text.table}, [ROW])\n"
    )


def _example_row(events: Sequence[Any], example: type[Any], deleted: str) -> Any:
    """The first event of a row that is there; an example if there is none."""
    return next((event for event in events if not getattr(event, deleted)), None) or replace(
        example_event(example, 1), **{deleted: False}
    )
