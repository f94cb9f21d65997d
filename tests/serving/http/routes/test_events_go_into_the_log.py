"""Accepted events are in the log, byte for byte, when the answer arrives; refused ones are not there at all."""

import gzip
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pyarrow as pa
import pytest

from examples.truth import murmur2
from tandem.infra import kafka
from tandem.ledger.log.positions import Position
from tandem.serving.client import server_client as clients
from tandem.serving.client.server_client import Refused
from tests.serving.http.sending import Log, ndjson, served
from tests.serving.http.served import Asker, Served, serving
from tests.serving.world import NOON, hit
from tests.stack import shared_kafka

pytestmark = pytest.mark.broker


def compressed(body: bytes, encoding: str) -> bytes:
    """A member of gzip, or a frame of zstd."""
    if encoding != "zstd":
        return gzip.compress(body, mtime=0)
    packed: bytes = pa.Codec("zstd").compress(body, asbytes=True)
    return packed


async def chunked(body: bytes) -> AsyncIterator[bytes]:
    """The body in two chunks, so that no header announces its length."""
    yield body[:20]
    yield body[20:]


KEY = {"Idempotency-Key": "0b6d3f5e-8f5c-4a55-9d0c-2f1a3c9f7c11"}


@pytest.fixture(scope="module")
def log(broker: kafka.BrokerConnection) -> Log:
    return Log.made(broker, "events")


@pytest.fixture(scope="module")
def server(log: Log, tmp_path_factory: pytest.TempPathFactory) -> Served:
    address = log.connection.address
    return served(tmp_path_factory.mktemp("world"), log, shared_kafka(address))


@pytest.fixture(scope="module")
def asker(server: Served) -> Iterator[Asker]:
    with server.asker() as found:
        yield found


def test_a_record_is_written_unchanged_and_its_position_returned(asker: Asker, log: Log) -> None:
    before = log.ends()
    value = b" " + hit("/a", 3) + b"\n\n"
    answer = asker.post("/sources/hits/events", content=value, headers={"Content-Type": "application/json; charset=utf-8"})
    assert answer.status_code == 200, answer.text
    told, topic = answer.json(), log.topics["hits"]
    (place,) = told["records"]
    record = log.records("hits")[place["partition"], place["offset"]]
    assert (record.value, record.key, record.headers) == (value, b"/a", ())
    assert place["partition"] == (murmur2(b"/a") & 0x7FFFFFFF) % 2
    assert (told["source"], told["topic"], place["topic_id"]) == ("hits", topic.name, topic.id)
    assert place["offset"] == before.get((topic.id, place["partition"]), 0)
    assert json.loads(told["min_position"]) == {topic.id: {str(place["partition"]): place["offset"] + 1}}


def test_lines_are_records_in_their_order(asker: Asker, log: Log) -> None:
    values = [hit(f"/{n}", n) for n in range(100)]
    body = b"\r\n".join(values) + b"\n\n  \n"
    answer = asker.post("/sources/hits/events", content=body, headers={"Content-Type": "application/x-ndjson"})
    assert answer.status_code == 200, answer.text
    places, found = answer.json()["records"], log.records("hits")
    assert [found[one["partition"], one["offset"]].value for one in places] == values
    position = Position.from_json(json.loads(answer.json()["min_position"]))
    assert position == Position.of(
        {(topic, number): end for (topic, number), end in kafka.ends(log.connection, [log.topics["hits"]]).items()}
    )


def test_any_decoder_accepts_bytes(asker: Asker, log: Log) -> None:
    row = f'{NOON.isoformat()},"/a,b",7,0.10'.encode()
    for media, body, expected in (
        ("application/octet-stream", row + b"\r\n", [row + b"\r\n"]),
        ("text/plain", row + b"\n" + row + b"\n", [row, row]),
    ):
        answer = asker.post("/sources/lines/events", content=body, headers={"Content-Type": media})
        assert answer.status_code == 200, answer.text
        found = log.records("lines")
        assert [found[one["partition"], one["offset"]].value for one in answer.json()["records"]] == expected


def test_a_retry_with_its_key_writes_duplicates_and_counts_once(asker: Asker, log: Log, server: Served) -> None:
    """Also beside records that came without one, each of which counts; and the key travels as a header."""
    values = [hit("/a", n % 2) for n in range(4)]
    source = server.world.project.sources["keyed"]
    for count, headers in ((4, KEY), (4, KEY), (8, {}), (12, {}), (16, {"Idempotency-Key": "another"})):
        sent = ndjson(values)
        answer = asker.post("/sources/keyed/events", content=sent["content"], headers=sent["headers"] | headers)
        assert answer.status_code == 200, answer.text
        assert log.counted(source, "keyed")[1] == count
        found = log.records("keyed")
        for number, one in enumerate(answer.json()["records"]):
            record = found[one["partition"], one["offset"]]
            assert record.key == str(number % 2).encode()
            expected = [("idempotency-key", f"{headers['Idempotency-Key']}/{number}".encode())] if headers else []
            assert list(record.headers) == expected
    assert log.counted(source, "keyed") == (20, 16)


def test_values_of_several_events_and_sources_of_several_topics_work(asker: Asker, log: Log, server: Served) -> None:
    value = b"[" + hit("/a", 1) + b"," + hit("/a", 1) + b"]"
    refused = asker.post("/sources/bundles/events", content=value, headers={"Content-Type": "application/json"})
    assert (refused.status_code, "several topics: choose one by topic=; topics: " in refused.text) == (400, True)
    path = f"/sources/bundles/events?topic={log.topics['others'].name}"
    for _ in range(2):
        answer = asker.post(path, content=value, headers={"Content-Type": "application/json"} | KEY)
        assert answer.status_code == 200, answer.text
        assert answer.json()["topic"] == log.topics["others"].name
    assert log.counted(server.world.project.sources["bundles"], "others") == (2, 2)
    assert log.records("bundles") == {}
    single = asker.post(path, content=hit("/a", 1), headers={"Content-Type": "application/json"})
    assert single.status_code == 422
    assert "no topic 'elsewhere'; " in asker.post("/sources/bundles/events?topic=elsewhere", **ndjson([value])).text.replace(
        ":", ";"
    )


def test_records_get_the_header_that_selects_them(asker: Asker, log: Log, server: Served) -> None:
    assert (
        "of several kinds: choose one with kind=; kinds: order, refund"
        in asker.post("/sources/told/events", **ndjson([hit("/", 1)])).text
    )
    assert "kind='ordr' is not its own" in asker.post("/sources/told/events?kind=ordr", **ndjson([hit("/", 1)])).text
    answer = asker.post("/sources/told/events?kind=refund", **ndjson([hit("/", 1), hit("/", 1)]))
    assert answer.status_code == 200, answer.text
    assert {one.headers for one in log.records("told").values()} == {(("type", b"refund"),)}
    assert log.counted(server.world.project.sources["told"], "told") == (2, 1)
    other = asker.post("/sources/cheap/events", **ndjson([hit("/", 1), hit("/", 1, price="0.20")]))
    assert other.status_code == 422
    (fault,) = other.json()["records"]
    assert (fault["record"], fault["reason"]) == (1, "other")
    assert "by_field('price', '0.10')" in fault["detail"]


def test_one_invalid_event_writes_nothing(asker: Asker, log: Log) -> None:
    before = log.ends()
    values = [hit("/a", 1), hit("/a", 2).replace(b'"bytes": 2', b'"bytes": "2"'), b"{", hit("/a", 3, minute=60 * 24 * 365 * 200)]
    answer = asker.post("/sources/hits/events", **ndjson(values))
    assert answer.status_code == 422
    told = answer.json()
    assert [(one["record"], one["reason"]) for one in told["records"]] == [
        (1, "wrong_type"),
        (2, "json"),
        (3, "implausible_time"),
    ]
    assert told["detail"].startswith(
        "record 1 of 4 is not an event of source 'hits', nor are 2 others: wrong_type: Expected `int`, got `str`"
    )
    assert "nothing is written; a Hit has moment, page, bytes, price; see /sources/hits" in told["detail"]
    many = asker.post("/sources/hits/events", **ndjson([b"{"] * 300)).json()
    assert [one["record"] for one in many["records"]] == list(range(100))
    assert log.ends() == before


def test_an_invalid_request_is_one_sentence(asker: Asker, log: Log) -> None:
    before = log.ends()

    def refused(status: int, path: str, body: bytes = b"", **headers: str | bytes) -> str:
        given = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
        answer = asker.post(path, content=body or hit("/a", 1), headers=given)
        assert answer.status_code == status, answer.text
        return str(answer.json()["detail"])

    assert "unsupported Content-Type 'text/html'; send application/json, " in refused(
        415, "/sources/hits/events", Content_Type="text/html"
    )
    assert "Content-Encoding 'br'" in refused(415, "/sources/hits/events", Content_Encoding="br")
    assert "the body has no record" in refused(400, "/sources/hits/events", b"\n\n", Content_Type="text/plain")
    assert "the request has 10001 records" in refused(400, "/sources/hits/events", b"x\n" * 10_001, Content_Type="text/plain")
    assert "unknown parameter 'topc'" in refused(400, "/sources/hits/events?topc=x")
    assert "does not select records by a header" in refused(400, "/sources/hits/events?kind=x")
    assert "does not use idempotency keys: every record counts;" in refused(400, "/sources/hits/events", Idempotency_Key="k")
    assert "does not use idempotency keys: its identity is bytes;" in refused(
        400, "/sources/told/events?kind=order", Idempotency_Key="k"
    )
    for key in ("two words", "x" * 201, b"\xe9"):
        assert "expected 1 to 200 visible ASCII characters" in refused(400, "/sources/keyed/events", Idempotency_Key=key)
    large = hit("x" * 500_000, 1)  # which is its key too
    assert "record 0 has 1000" in refused(413, "/sources/hits/events", large)
    assert "the limit is 1048576" in refused(413, "/sources/hits/events", b" " * (1025 << 10))
    assert "no source 'hots'; sources: hits" in refused(404, "/sources/hots/events")
    assert log.ends() == before


@pytest.mark.parametrize("encoding", ["gzip", "X-Gzip", "zstd"])
def test_a_compressed_body_is_the_body(asker: Asker, log: Log, encoding: str) -> None:
    """Also of several members, and with its length unknown."""
    values = [hit(f"/{encoding}/{n}", n) for n in range(100)]
    halves = [b"".join(value + b"\n" for value in half) for half in (values[:50], values[50:])]
    body = b"".join(compressed(half, encoding.lower()) for half in halves)
    for content in (body, chunked(body)):
        headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": encoding}
        answer = asker.post("/sources/hits/events", content=content, headers=headers)
        assert answer.status_code == 200, answer.text
        records = log.records("hits")
        assert [records[one["partition"], one["offset"]].value for one in answer.json()["records"]] == values


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_an_invalid_compressed_body_writes_nothing(asker: Asker, log: Log, encoding: str) -> None:
    before = log.ends()

    def refused(status: int, body: bytes, encoding: str | bytes = encoding) -> dict[str, Any]:
        headers = {"Content-Type": "text/plain", "Content-Encoding": encoding}
        answer = asker.post("/sources/hits/events", content=body, headers=headers)
        assert answer.status_code == status, answer.text
        if status == 415:
            assert answer.headers["accept-encoding"] == "gzip, zstd"
        found: dict[str, Any] = answer.json()
        return found

    whole = compressed(hit("/a", 1), encoding)
    for wrong in (whole[:-1], whole[:9], whole[:2], whole + whole[:-1], whole + b"x", hit("/a", 1)):
        told = refused(400, wrong)
        assert told["code"] == "body-encoding-invalid", wrong
        assert f"the body is not complete, valid {encoding}: " in told["detail"]
    assert f"the body has no bytes, which is not {encoding}" in refused(400, b"")["detail"]
    other = "zstd" if encoding == "gzip" else "gzip"
    for unknown in ("br", "deflate", f"{encoding}, {encoding}", f"{encoding}, {other}", b"\xe9"):
        assert refused(415, whole, unknown)["code"] == "body-encoding-unsupported"
    assert refused(413, compressed(b" " * (1 << 20 | 1), encoding))["code"] == "unpacked-body-too-large"
    assert "the body has no record" in refused(400, compressed(b" " * (1 << 20), encoding))["detail"]
    assert log.ends() == before


def test_sources_are_described(asker: Asker, log: Log) -> None:
    told = {one["name"]: one for one in asker.get("/sources").json()["sources"]}
    assert list(told) == ["hits", "keyed", "bundles", "told", "cheap", "lines"]
    assert (told["keyed"]["idempotency_key"], told["hits"]["idempotency_key"]) == (True, False)
    spans = {name: told[name]["identity_spans"] for name in ("hits", "keyed", "bundles", "told")}
    assert spans == {"hits": None, "keyed": "event_time", "bundles": "event_time", "told": "any_time"}
    assert told["told"]["kinds"] == ["order", "refund"]
    assert told["bundles"] == asker.get("/sources/bundles").json()
    assert (told["bundles"]["topics"], told["bundles"]["max_events_per_record"]) == (
        [log.topics[name].name for name in ("bundles", "others")],
        3,
    )
    fields = {one["name"]: (one["kind"], one["required"], one["null"]) for one in told["hits"]["fields"]}
    assert fields == {
        "moment": ("time", True, False),
        "page": ("text", True, True),
        "bytes": ("integer", True, False),
        "price": ("decimal", True, False),
    }


def test_metrics_count_written_and_refused_records(asker: Asker) -> None:
    asker.post("/sources/hits/events", **ndjson([hit("/a", 1)]))
    asker.post("/sources/hits/events", **ndjson([b"{"]))
    text = asker.get("/metrics").text
    assert 'tandem_ingest_records_total{outcome="written"}' in text
    assert 'tandem_ingest_bytes_total{outcome="written"}' in text
    assert 'tandem_ingest_refused_total{reason="undecodable"}' in text
    assert "tandem_ingest_append_seconds_count" in text
    assert "tandem_ingest_under_way_bytes 0.0" in text


def test_the_client_sends_and_reads_what_it_wrote(server: Served, log: Log) -> None:
    another = Served(server.world, kafka=server.kafka)
    with serving(another) as address, clients.client(address, another.token("python", may=("read", "ingest"))) as client:
        events = [json.loads(hit("/a", n)) for n in range(3)]
        first = client.send("keyed", events, idempotency_key="mine")
        again = client.send("keyed", events, idempotency_key="mine")
        assert len({*first.places, *again.places}) == 6
        found = log.records("keyed")
        assert [json.loads(found[one.partition, one.offset].value) for one in first.places] == events
        (alone,) = client.send("bundles", b"[" + hit("/a", 1) + b"]", topic=log.topics["bundles"].name).places
        assert log.records("bundles")[alone.partition, alone.offset].value == b"[" + hit("/a", 1) + b"]"
        assert [one["name"] for one in client.sources() if one["idempotency_key"]] == ["keyed", "bundles"]
        with pytest.raises(Refused, match="record 1 of 2 is not an event") as refused:
            client.send("keyed", [events[0], {}])
        assert (refused.value.status, [one["reason"] for one in refused.value.records]) == (422, ["missing_field"])
        with pytest.raises(Refused, match="not as fresh as requested"):  # no speed layer counts it
            client.rows("of_keyed", min_position=again.min_position or "")
