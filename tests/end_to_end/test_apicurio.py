"""Schemas of a real registry: Apicurio's, by the part of its API that is Confluent's.

Maven fetches it, 140 MB, into a folder that stays; without `mvn` and `java` the test is skipped.
"""

import io
import json
import shutil
import socket
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError

import pytest
from fastavro import parse_schema, schemaless_writer

from tandem import Event, Source, avro, protobuf
from tandem import json as strict_json
from tandem.infra.folders import ROOT
from tandem.infra.settings import RegistrySettings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.registry_client import RegistryAway
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.views.decode import decode
from tandem.views.decode.sample_records import as_records
from tests.speed.sales import wait_for

pytestmark = pytest.mark.slow

ARTIFACT: Final = "io.apicurio:apicurio-registry-app:2.6.13.Final:tar.gz:all"
NOON: Final = datetime(2026, 11, 1, 12, tzinfo=UTC)
MONEY: Final = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "cents", "type": "long"}]}
SALE: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Sale",
    "namespace": "shop",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "price", "type": "shop.Money"},
    ],
}


class Sale(Event):
    at: datetime


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if shutil.which("mvn") is None or shutil.which("java") is None:
        pytest.skip("Maven or Java is missing")
    kept, folder = ROOT / ".tandem" / "apicurio", tmp_path_factory.mktemp("apicurio")
    fetching = ["mvn", "-q", "-B", f"-Dmaven.repo.local={kept}", "dependency:get", "-Dtransitive=false", f"-Dartifact={ARTIFACT}"]
    if subprocess.run(fetching, check=False, capture_output=True, timeout=900).returncode:
        pytest.skip("Maven cannot fetch the registry")
    with tarfile.open(next(kept.rglob("*-all.tar.gz"))) as packed:
        packed.extractall(folder, filter="data")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["-Xmx400m", f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            ["java", *options, "-jar", next(folder.glob("*-runner.jar"))], cwd=folder, stdout=log, stderr=log
        )
        address = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        try:
            wait_for(lambda: answers(f"{address}/subjects"), seconds=240)
            yield address
        finally:
            server.kill()
            server.wait()


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def register(registry: str, subject: str, schema: str, **more: Any) -> int:
    """The id of a schema."""
    content = json.dumps({"schema": schema, **more}).encode()
    request = urllib.request.Request(f"{registry}/subjects/{subject}/versions", content, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return int(json.load(answer)["id"])


def frame(number: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big")


def test_records_of_its_schemas_are_read(registry: str, tmp_path: Path) -> None:
    register(registry, "money", json.dumps(MONEY))
    references = [{"name": "shop.Money", "subject": "money", "version": 1}]
    sale = register(registry, "sales-value", json.dumps(SALE), references=references)
    checked = register(
        registry, "checked-value", '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}', schemaType="JSON"
    )
    proto = 'syntax = "proto3";\npackage shop;\nmessage Sale { string at = 1; }\n'
    described = register(registry, "proto-value", proto, schemaType="PROTOBUF")
    whole = {**SALE, "fields": [SALE["fields"][0], {"name": "price", "type": MONEY}]}
    stream = io.BytesIO()
    schemaless_writer(stream, parse_schema(whole), {"at": NOON, "price": {"cents": 5}})
    schemas = RegistrySchemas(RegistrySettings(), Tables(str(tmp_path)))

    def read(decoder: Any, *values: bytes) -> list[str]:
        source = Source(topic="t", event=Sale, event_time="at", decoder=decoder)
        records = as_records(source, values, topic_id="t", offsets=range(len(values)), at=NOON)
        found = decode(schemas.ready(source, records), records)
        assert found.events["at"].to_pylist() == [NOON] * found.events.num_rows
        return ["event"] * found.events.num_rows + found.rejects["detail"].to_pylist()

    assert read(avro(registry=registry), frame(sale) + stream.getvalue(), frame(999_999)) == [
        "event",
        f"the registry {registry} has no schema 999999",
    ]
    assert read(strict_json(registry=registry), frame(checked) + b'{"at":"2026-11-01T12:00:00Z"}') == ["event"]
    (said,) = read(protobuf(registry=registry), frame(described) + b"\0")
    assert "the registry returns it as text only; give descriptor=... and message=..." in said
    with pytest.raises(RegistryAway, match=r"is the address that of a registry's API\?"):
        RegistrySchemas(RegistrySettings(url=registry.replace("ccompat", "wrong"))).ready_for(
            Source(topic="t", event=Sale, event_time="at", decoder=avro(registry=registry)), [frame(sale)]
        )
