"""Records that name their schema count alike in both layers and the hot tail, and each schema is fetched once."""

import io
import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer

from tandem.batch.recompute.plan import RecomputeRequest
from tandem.infra.settings import Settings, SpeedSettings
from tandem.ledger.log import registry_schemas
from tandem.ledger.log.registry_client import RegistryAway
from tests import one_process
from tests.one_process import MemoryBroker
from tests.schema_server import SchemaServer, schema_server
from tests.speed.hot.beside import Beside
from tests.speed.sales import DEFINITIONS, START, answered, folded, per_minute, sale, total
from tests.speed.test_in_one_process import Layer

FIELDS = (
    {"name": "id", "type": "long"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "shop", "type": "string"},
    {"name": "amount", "type": "long"},
)
SALE: dict[str, Any] = {"type": "record", "name": "Sale", "fields": [*FIELDS]}
WIDER: dict[str, Any] = {"type": "record", "name": "Sale", "fields": [{"name": "till", "type": ["null", "string"]}, *FIELDS]}
NARROW: dict[str, Any] = {"type": "record", "name": "Sale", "fields": [*FIELDS[:3]]}
GUID = "7f1b9a64-0a1e-4a43-b9fb-3d4c7f0d5e11"


def avro_sales(numbers: Sequence[int], schema: dict[str, Any], number: int | None = 1) -> list[bytes]:
    """What `sales.some` sells, in Avro, after the id of the schema, unless that is in a header."""
    values = []
    for each in numbers:
        event = {
            "id": each,
            "at": START + timedelta(seconds=each * 7 % 600),
            "shop": "abc"[each % 3],
            "amount": each,
            "till": "t",
        }
        stream = io.BytesIO()
        schemaless_writer(stream, parse_schema(schema), event)
        values.append((b"" if number is None else b"\0" + number.to_bytes(4, "big")) + stream.getvalue())
    return values


class RegistryLayer(Layer):
    """A layer whose source reads a registry."""

    decoder = ""

    @property
    def files(self) -> dict[str, bytes]:
        text = DEFINITIONS.format(topic=self.topic.topic.name)
        text = text.replace("import Event", "import avro, json, Event").replace(
            'identity=("id",)', f'identity=("id",), decoder={self.decoder}'
        )
        return {"definitions.py": text.encode(), "tandem.toml": b""}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SchemaServer]:
    monkeypatch.setattr(registry_schemas, "_AGAIN_S", 0.0)
    with schema_server() as found:
        found.add(1, SALE)
        yield found


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: SchemaServer) -> RegistryLayer:
    broker = MemoryBroker()
    broker.stand_in(monkeypatch)
    one_process.speed_stands_in(monkeypatch, broker)
    one_process.hot_stands_in(monkeypatch, broker)
    settings = Settings(state=str(tmp_path), speed=SpeedSettings(max_events=25, compact_every=3))
    made = RegistryLayer(broker, broker.new_topic(partitions=3), settings)
    made.decoder = f'avro(registry="{server.address}")'
    return made


def test_each_schema_is_fetched_once_and_a_recompute_needs_no_registry(layer: RegistryLayer, server: SchemaServer) -> None:
    layer.start()
    layer.topic.append(avro_sales(range(10), SALE), partition=0)
    layer.topic.append(avro_sales(range(10, 20), SALE), partition=1)
    layer.drain()
    server.add(2, WIDER)
    layer.topic.append(avro_sales(range(20, 40), WIDER, 2), partition=1)
    layer.drain()
    assert answered(layer.settings) == per_minute(range(40))
    layer.restart()
    layer.archive()
    assert server.asked == ["/schemas/ids/1", "/schemas/ids/2"]
    server.down = 503
    live = layer.recompute(RecomputeRequest(mode="full"))
    assert (live.counts["sales"].events, live.counts["sales"].quarantined, live.repaired) == (40, {}, {"sales": 0})
    assert answered(layer.settings) == per_minute(range(40))


def test_batch_fetches_a_schema_that_no_speed_layer_has_seen(layer: RegistryLayer, server: SchemaServer) -> None:
    """The records are archived even without the registry, and decoded once it is back."""
    layer.start()
    layer.topic.append(avro_sales(range(30), SALE))
    server.down = 500
    with pytest.raises(RegistryAway, match=r"the schema registry http://127.0.0.1:\d+ answered 500 for /schemas/ids/1"):
        layer.archive()
    layer.topic.delete_below({0: 30})
    server.down = 0
    layer.archive()
    layer.restart()
    layer.drain()
    assert answered(layer.settings) == per_minute(range(30))
    assert server.asked.count("/schemas/ids/1") == 2


def test_a_registry_that_is_away_stops_the_source_and_loses_nothing(layer: RegistryLayer, server: SchemaServer) -> None:
    layer.start()
    layer.topic.append(avro_sales(range(5), SALE))
    server.down = 503
    with pytest.raises(RegistryAway):
        layer.drain()
    assert answered(layer.settings) == {}
    server.down = 0
    layer.follow.begin()
    layer.drain()
    assert (answered(layer.settings), folded(layer.settings)) == (per_minute(range(5)), layer.end)


def test_unknown_ids_and_unfit_schemas_are_rejects_and_stay_so(layer: RegistryLayer, server: SchemaServer) -> None:
    """An id that the registry gets later does not change what its records are: both layers agree, whenever they ask."""
    layer.start()
    server.add(3, NARROW)
    server.add(4, {"type": "object"}, kind="JSON")
    layer.topic.append([*avro_sales(range(5), SALE), *avro_sales(range(5, 8), SALE, 9), b"plain", b"\0\0"])
    layer.topic.append([*avro_sales(range(5, 8), NARROW, 3), *avro_sales(range(5, 8), SALE, 4)], partition=1)
    layer.drain()
    assert (answered(layer.settings), total(layer.settings, "events")) == (per_minute(range(5)), 5)
    server.add(9, SALE)
    layer.topic.append(avro_sales(range(8, 10), SALE, 9))
    layer.drain()
    layer.archive()
    live = layer.recompute(RecomputeRequest(mode="full"))
    assert (live.counts["sales"].quarantined, live.repaired) == ({"format": 2, "schema": 11}, {"sales": 0})
    assert server.asked.count("/schemas/ids/9") == 2, "at once, as the registry may have been about to get it, and never again"


def test_ids_in_headers_are_read(layer: RegistryLayer, server: SchemaServer) -> None:
    """A GUID; and a value that looks as if it began with an id does not ask for that id."""
    server.add(GUID, SALE)
    layer.start()
    layer.topic.append([*avro_sales(range(3), SALE), *avro_sales([3, 0, 4], SALE, None)])
    header = b"\x01" + bytes.fromhex(GUID.replace("-", ""))
    for row in layer.topic.rows[0][3:]:
        row["headers"] = [{"key": "other", "value": b"\0\0\0\0\x07"}, {"key": "__value_schema_id", "value": header}]  # type: ignore[index]
    layer.drain()
    layer.archive()
    live = layer.recompute(RecomputeRequest(mode="full"))
    assert (live.counts["sales"].quarantined, live.repaired) == ({}, {"sales": 0})
    assert answered(layer.settings) == per_minute(range(5))
    assert sorted(server.asked) == [f"/schemas/guids/{GUID}", "/schemas/ids/1"]


def test_json_after_an_id_is_read(layer: RegistryLayer, server: SchemaServer) -> None:
    layer.decoder = f'json(registry="{server.address}")'
    server.add(7, {"type": "object"}, kind="JSON")
    layer.start()
    values = [sale(n, seconds=n * 7 % 600, shop="abc"[n % 3], amount=n) for n in range(8)]
    assert json.loads(values[0])["id"] == 0
    layer.topic.append([b"\0\0\0\0\x07" + value for value in values] + [values[0], b"\0\0\0\0\x01" + values[0]])
    layer.drain()
    assert answered(layer.settings) == per_minute(range(8))
    assert total(layer.settings, "events") == 8
    layer.archive()
    assert layer.recompute(RecomputeRequest(mode="full")).counts["sales"].quarantined == {"format": 1, "schema": 1}


def test_the_hot_tail_fetches_too_and_agrees(layer: RegistryLayer, server: SchemaServer) -> None:
    layer.start()
    beside = Beside(layer)
    beside.start()
    layer.topic.append(avro_sales(range(10), SALE))
    beside.step()
    beside.connection.refresh()
    rows = beside.connection.view("per_minute").rows()
    assert {(row["window_start"], row["shop"]): (row["n"], row["sum"]) for row in rows} == per_minute(range(10))
    layer.drain()
    beside.step()
    beside.start()
    beside.step()
    assert server.asked == ["/schemas/ids/1"]
    server.down = 503
    layer.topic.append(avro_sales(range(10, 12), SALE, 2))
    with pytest.raises(RegistryAway):
        beside.step()
