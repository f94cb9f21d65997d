"""Whoever may ingest decides nothing about an id of a schema: a refused request leaves neither memory nor a row of it."""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import CollectorRegistry

from tandem import Event, Source, json
from tandem.infra.settings import RegistrySettings, Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.registry_schemas import RegistrySchemas, schemas_in
from tandem.serving.ingest import new_records
from tandem.serving.ingest.gateway import Gateway, IngestMetrics
from tandem.views.source.formats.schema_registry import FromRegistry
from tests.schema_server import schema_server


class Item(Event):
    at: datetime


def test_an_id_that_the_registry_does_not_have_yet_is_asked_for_again(tmp_path: Path) -> None:
    settings, at = Settings(state=str(tmp_path)), datetime(2026, 11, 1, tzinfo=UTC)
    schemas = RegistrySchemas(RegistrySettings(), Tables.of(settings), sleep=lambda _: None)
    gateway = Gateway(settings, IngestMetrics(CollectorRegistry()), time.monotonic, schemas)

    async def outcome(source: Source, values: Sequence[bytes]) -> str:
        target = new_records.target(source, topic=None, kind=None, idempotency_key=None)
        async with gateway.open():
            target = await gateway.ready("ann", target, values, at=at)
        try:
            return f"{len(new_records.records_of(target, values, at=at))} accepted"
        except new_records.NoEvents as error:
            return error.faults[0].detail

    with schema_server() as server:
        source = Source(name="items", topic="items", event=Item, event_time="at", decoder=json(registry=server.address))
        server.add(1, {}, kind="JSON")
        value = b'{"at":"2026-11-01T00:00:00Z"}'
        values = [b"\0\0\0\0\x01" + value, b"\0\0\0\0\x02" + value]
        assert asyncio.run(outcome(source, values)) == f"the registry {server.address} has no schema 2"
        stored = schemas_in(RegistrySettings(), Tables.of(settings)).bind(source).decoder
        assert isinstance(stored, FromRegistry)
        assert stored.schemas == ()
        server.add(2, {}, kind="JSON")
        assert asyncio.run(outcome(source, values)) == "2 accepted"
        assert server.asked.count("/schemas/ids/1") == 1
