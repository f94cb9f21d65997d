"""What a registry returns becomes a schema with all that it imports; anything else is an error that says what to do."""

import base64
from collections.abc import Iterator
from typing import Any

import fastavro
import msgspec
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from tandem.infra.settings import RegistrySettings
from tandem.ledger.log.registry_client import RegistryAway, RegistryClient
from tandem.views.source.formats.schema_registry import FetchedSchema, SchemaKey
from tests.schema_server import SchemaServer, schema_server

MONEY = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "amount", "type": "long"}]}
LINE = {
    "type": "record",
    "name": "shop.Line",
    "fields": [{"name": "price", "type": "Money"}, {"name": "tax", "type": ["null", "shop.Money"]}],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "lines", "type": {"type": "array", "items": "Line"}},
        {"name": "total", "type": "shop.Money"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["Money"]}},
    ],
}


@pytest.fixture
def server() -> Iterator[SchemaServer]:
    with schema_server() as found:
        yield found


def fetch(server: SchemaServer, number: str, kind: str = "AVRO", **settings: str) -> FetchedSchema:
    return RegistryClient(RegistrySettings(**settings)).fetch(SchemaKey(server.address + "/", kind, number))  # type: ignore[arg-type]


def test_a_schema_has_the_types_that_it_refers_to(server: SchemaServer) -> None:
    server.add("money/1", MONEY)
    server.add("line/2", LINE, references=[{"name": "shop.Money", "subject": "money", "version": 1}])
    server.add(
        5,
        ORDER,
        references=[
            {"name": "shop.Line", "subject": "line", "version": 2},
            {"name": "shop.Money", "subject": "money", "version": 1},
        ],
    )
    found = fetch(server, "5")
    names: dict[str, Any] = {}
    fastavro.parse_schema(msgspec.json.decode(found.text), names)
    assert (found.kind, sorted(names)) == ("AVRO", ["shop.Kind", "shop.Line", "shop.Money", "shop.Order"])
    assert len(server.asked) == 3, "each once"


def file(name: str, message: str, *fields: tuple[str, str], imports: tuple[str, ...] = ()) -> bytes:
    found = FileDescriptorProto(name=name, package="shop", syntax="proto3", dependency=imports)
    described = found.message_type.add(name=message)
    for number, (field, of) in enumerate(fields, 1):
        described.field.add(
            name=field,
            number=number,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
            type=FieldDescriptorProto.TYPE_MESSAGE,
            type_name=of,
        )
    return found.SerializeToString()


def test_a_descriptor_has_the_files_that_it_imports(server: SchemaServer) -> None:
    server.add("line/1", file("whatever.proto", "Line"), kind="PROTOBUF")
    imports = ("shop/line.proto", "google/protobuf/timestamp.proto", "google/protobuf/type.proto")
    content = file("order.proto", "Order", ("line", ".shop.Line"), ("at", ".google.protobuf.Timestamp"), imports=imports)
    server.add(6, content, kind="PROTOBUF", references=[{"name": "shop/line.proto", "subject": "line", "version": 1}])
    found = fetch(server, "6", "PROTOBUF")
    files = FileDescriptorSet.FromString(base64.b64decode(found.text)).file
    pool = DescriptorPool()
    for each in files:
        pool.AddSerializedFile(each.SerializeToString())
    assert (files[-1].name, pool.FindMessageTypeByName("shop.Order").fields[0].message_type.full_name) == (
        "order.proto",
        "shop.Line",
    )
    server.text_only = True
    server.schemas["6"]["text"] = 'syntax = "proto3"; import "shop/line.proto"; message Order {}'
    assert fetch(server, "6", "PROTOBUF") == FetchedSchema("PROTOBUF", "")


def test_a_schema_of_another_type_is_named_and_not_read(server: SchemaServer) -> None:
    server.add(7, {"type": "object"}, kind="JSON", references=[{"name": "a", "subject": "nowhere", "version": 1}])
    assert fetch(server, "7") == fetch(server, "7", "JSON") == FetchedSchema("JSON", '{"type": "object"}')


def test_only_the_registrys_own_word_says_that_there_is_no_schema(server: SchemaServer) -> None:
    assert fetch(server, "8") == FetchedSchema()
    with pytest.raises(RegistryAway, match=r"/wrong answered 404 for /schemas/ids/8; is the address that of a registry's API\?"):
        RegistryClient(RegistrySettings()).fetch(SchemaKey(f"{server.address}/wrong", "AVRO", "8"))
    server.add(9, MONEY, references=[{"name": "a", "subject": "a b", "version": 3}])
    with pytest.raises(RegistryAway, match="does not have version 3 of 'a b', to which schema 9 refers; register it"):
        fetch(server, "9")
    assert server.asked[-1] == "/subjects/a%20b/versions/3"
    server.add("a b/2", MONEY)
    assert server.answer("/subjects/a%20b/versions/3", None)[1]["error_code"] == 40402
    with pytest.raises(RegistryAway, match="does not have version 3 of 'a b', to which schema 9 refers; register it"):
        fetch(server, "9")


def test_the_login_is_sent_and_not_to_another_address(server: SchemaServer) -> None:
    server.add(1, MONEY)
    server.login = "ann:secret"
    assert fetch(server, "1", username="ann", password="secret").kind == "AVRO"
    with pytest.raises(
        RegistryAway, match=r"answered 401 for /schemas/ids/1; set `registry\.username` and TANDEM_REGISTRY_PASSWORD"
    ):
        fetch(server, "1")
    server.down = 302
    with pytest.raises(RegistryAway, match="answered 302"):
        fetch(server, "1", username="ann", password="secret")
    server.down = 0
    elsewhere = RegistryClient(RegistrySettings(url=server.address, username="ann", password="secret"))
    assert elsewhere.fetch(SchemaKey("http://127.0.0.1:1/#2", "AVRO", "1")).kind == "AVRO"


def test_a_registry_that_is_not_there_is_an_error(server: SchemaServer) -> None:
    with pytest.raises(RegistryAway, match=r"the schema registry http://127.0.0.1:1 cannot be asked: .*refused"):
        RegistryClient(RegistrySettings()).fetch(SchemaKey("http://127.0.0.1:1", "AVRO", "1"))
    server.down = 200
    with pytest.raises(RegistryAway, match="returned something else than a schema"):
        fetch(server, "1")


@pytest.mark.parametrize("url", ["file:///etc/passwd?", "https://ann:secret@there", "https://ann:se#secret@there", "there:8081"])
def test_the_address_in_the_settings_is_one_of_http_without_a_login(server: SchemaServer, url: str) -> None:
    with pytest.raises(RegistryAway, match=r"^the setting `registry\.url` ") as refused:
        fetch(server, "1", url=url)
    assert "secret" not in str(refused.value)


def test_no_error_quotes_the_token(server: SchemaServer) -> None:
    server.add(1, MONEY)
    assert fetch(server, "1", token="secret\n").kind == "AVRO"
    for token in ("sec\nret", "secret\u20ac"):
        with pytest.raises(RegistryAway, match="its address or login has a character that HTTP does not") as refused:
            fetch(server, "1", token=token)
        assert refused.value.__cause__ is None
