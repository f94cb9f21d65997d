"""Fetched schemas are kept round by round; a value that is not in the log leaves no trace of an id without schema."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tandem import Event, Source, json
from tandem.infra.settings import RegistrySettings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log import registry_schemas
from tandem.ledger.log.registry_client import RegistryAway
from tandem.ledger.log.registry_schemas import RegistrySchemas, TooManyUnknownIds, schemas_in
from tandem.views.source.formats.schema_registry import FetchedSchema, FromRegistry, SchemaKey
from tests.schema_server import SchemaServer, schema_server


class Item(Event):
    at: datetime


@pytest.fixture
def server() -> Iterator[SchemaServer]:
    with schema_server() as found:
        yield found


def new_schemas(folder: Path) -> RegistrySchemas:
    return RegistrySchemas(RegistrySettings(), Tables(str(folder)), sleep=lambda _: None)


def source_of(server: SchemaServer) -> Source:
    return Source(topic="t", event=Item, event_time="at", decoder=json(registry=server.address))


def ids_of(source: Source) -> dict[str, FetchedSchema]:
    assert isinstance(source.decoder, FromRegistry)
    return dict(source.decoder.schemas)


def test_many_ids_are_stored_in_rounds(tmp_path: Path, server: SchemaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked for before the registry went away is not asked for again."""
    monkeypatch.setattr(registry_schemas, "_ROUND", 4)
    server.add(0, {}, kind="JSON")
    keys = [SchemaKey(server.address, "JSON", str(number)) for number in range(10)]
    broken = [*keys[:6], SchemaKey("http://127.0.0.1:1", "JSON", "1"), *keys[6:]]
    with pytest.raises(RegistryAway):
        new_schemas(tmp_path).fetch(broken, source="t")
    source = source_of(server)
    assert len(ids_of(schemas_in(RegistrySettings(), Tables(str(tmp_path))).bind(source))) == 4
    server.asked.clear()
    again = new_schemas(tmp_path)
    again.fetch(keys, source="t")
    assert sorted(set(server.asked)) == sorted(f"/schemas/ids/{number}" for number in range(4, 10))
    known = ids_of(schemas_in(RegistrySettings(), Tables(str(tmp_path))).bind(source))
    assert known == ids_of(again.bind(source))
    assert {key for key, schema in known.items() if schema.kind} == {"0"}


def test_ids_without_schema_are_bounded_in_memory_and_journal(
    tmp_path: Path, server: SchemaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source waits: what it stores stays, ids with a schema are no part of the bound, and each way on ends the wait."""
    monkeypatch.setattr(registry_schemas, "_ROUND", 4)
    server.add(9, {}, kind="JSON")
    keys = [SchemaKey(server.address, "JSON", str(number)) for number in (0, 1, 9, 2, 3, 4)]
    source = source_of(server)

    def schemas_of_most(most: int) -> RegistrySchemas:
        return RegistrySchemas(RegistrySettings(max_unknown_ids=most), Tables(str(tmp_path)), sleep=lambda _: None)

    def ids_in_journal() -> dict[str, FetchedSchema]:
        return ids_of(schemas_in(RegistrySettings(), Tables(str(tmp_path))).bind(source))

    first = schemas_of_most(3)
    sentence = (
        f"source 't': its records name more than 3 ids that {server.address} does not have, the bound of "
        "`registry.max_unknown_ids`; the next is 3: register its schema, correct the decoder if these values have another "
        "format, or raise the setting"
    )
    for _ in range(2):
        with pytest.raises(TooManyUnknownIds) as raised:
            first.fetch(keys, source="t")
        assert str(raised.value) == sentence
        assert {key for key, schema in ids_in_journal().items() if not schema.kind} == {"0", "1", "2"}
        assert ids_of(first.bind(source)) == ids_in_journal()
    assert ids_in_journal()["9"].kind == "JSON"

    server.add(3, {}, kind="JSON")
    with pytest.raises(TooManyUnknownIds, match="the next is 4"):
        first.fetch(keys, source="t")
    assert ids_in_journal()["3"].kind == "JSON"
    schemas_of_most(4).fetch(keys, source="t")
    assert ids_in_journal()["4"] == FetchedSchema()
    other = SchemaKey("http://127.0.0.1:1", "JSON", "1")
    assert not first._surplus({other: FetchedSchema()})


def test_a_value_that_is_not_in_the_log_pins_no_id(tmp_path: Path, server: SchemaServer) -> None:
    """An id that the registry gets after a refused value is read, in this process and in the others."""
    server.add(1, {}, kind="JSON")
    schemas, source = new_schemas(tmp_path), source_of(server)
    keys = [SchemaKey(server.address, "JSON", each) for each in ("1", "2")]
    assert ids_of(schemas.peek(source, keys)) == {"1": FetchedSchema("JSON", "{}"), "2": FetchedSchema()}
    assert ids_of(schemas.bind(source)) == {"1": FetchedSchema("JSON", "{}")}
    assert ids_of(schemas_in(RegistrySettings(), Tables(str(tmp_path))).bind(source)) == {}
    server.add(2, {}, kind="JSON")
    assert ids_of(schemas.peek(source, keys))["2"].kind == "JSON"
    assert server.asked.count("/schemas/ids/1") == 1


def test_the_first_stored_answer_counts(tmp_path: Path, server: SchemaServer) -> None:
    first, second = new_schemas(tmp_path), new_schemas(tmp_path)
    key = SchemaKey(server.address, "JSON", "1")
    first.fetch([key], source="t")
    server.add(1, {}, kind="JSON")
    second.fetch([key, SchemaKey(server.address, "JSON", "2")], source="t")
    assert ids_of(second.bind(source_of(server)))["1"] == FetchedSchema()
