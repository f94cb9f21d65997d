"""Invalid text from a client is refused with a problem document, wherever it is; no server fails."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tandem.serving.http.protocol.problem import MEDIA
from tests.serving.http.served import Asker, Served
from tests.serving.world import forty_hits

LONE = ("\ud800", "a\udfffb", "\udc80\ud800")
"""Halves of surrogate pairs, which JSON can write and UTF-8 cannot."""
BYTES = (b"\xed\xa0\x80", b"\xff", b"\xc0\x80", b"a\x00b")
"""Bytes that are no UTF-8, or that C takes for an end."""
HEADERS = (
    *("Authorization", "Accept", "Idempotency-Key", "If-None-Match", "Content-Type", "Content-Encoding", "Last-Event-ID"),
    "Host",
)


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    with Served(forty_hits(tmp_path_factory.mktemp("world")), {"burst": 10**6}).asker() as found:
        yield found


@pytest.fixture(scope="module")
def document(asker: Asker) -> dict[str, Any]:
    found: dict[str, Any] = asker.get("/openapi.json").json()
    assert len(found["paths"]) > 15
    return found


def no_failure(answer: httpx.Response, sent: object) -> None:
    """An answer, or a problem document that is none of a defect; 503 only where no broker is."""
    assert answer.status_code < 500 or answer.status_code == 503, (sent, answer.status_code, answer.text)
    if answer.status_code >= 400 and answer.url.path == "/mcp" and answer.headers["content-type"] == "application/json":
        assert answer.json()["error"]["message"].encode(), sent  # by JSON-RPC
    elif answer.status_code >= 400:
        assert answer.headers["content-type"] == MEDIA, (sent, answer.text)
        assert answer.json()["detail"].encode(), sent
        if answer.status_code == 503:
            assert "broker" in answer.json()["detail"], (sent, answer.text)


def filled(path: str, value: str) -> str:
    """A path with its parameters, one way or another."""
    known = {"{view}": "per_page", "{source}": "hits", "{number}": "1", "{release}": "1", "{run}": "none", "{path}": "x"}
    for name, usual in known.items():
        path = path.replace(name, value or usual)
    return path


def routes(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            yield path, method.upper(), described


def ask(asker: Asker, method: str, path: str, **how: Any) -> httpx.Response:
    return asker.runner.run(asker.client.request(method, path, **how))


def post(asker: Asker, path: str, body: Any) -> httpx.Response:
    """With a body of JSON in ASCII, which may hold half of a surrogate pair."""
    return asker.post(path, content=json.dumps(body).encode(), headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("sent", BYTES, ids=repr)
def test_invalid_text_in_the_path_and_in_each_parameter_is_refused(asker: Asker, document: dict[str, Any], sent: bytes) -> None:
    for path, method, described in routes(document):
        if method != "GET":
            continue
        if "{" in path:
            no_failure(ask(asker, method, filled(path, quote(sent))), (method, path))
        if path.endswith("/changes"):
            continue  # a stream without an end where nothing is wrong with the question
        names = [one["name"] for one in described.get("parameters", ()) if one["in"] == "query"]
        for name in (*names, "key.page", f"key.{quote(sent)}", quote(sent)):
            whole = f"{filled(path, '')}?{name if name != 'key.' else 'key.x'}={quote(sent)}"
            no_failure(ask(asker, method, whole), whole)
        no_failure(ask(asker, method, f"{filled(path, '')}?null={quote(sent)}"), path)


@pytest.mark.parametrize("text", LONE, ids=ascii)
def test_invalid_text_in_json_parameters_is_refused(asker: Asker, text: str) -> None:
    written = quote(json.dumps({text: {"0": 1}}))
    no_failure(asker.get(f"/views/per_page/rows?min_position={written}"), written)
    no_failure(asker.get(f"/views/per_page/changes?since={written}"), written)


@pytest.mark.parametrize("sent", BYTES, ids=repr)
def test_invalid_text_in_each_header_is_refused(asker: Asker, sent: bytes) -> None:
    for name in HEADERS:
        values = [sent, b"Bearer " + sent, b"Bearer tdm_" + sent, b'W/"' + sent, b"application/json; charset=" + sent]
        for value in values:
            for method, path in (("GET", "/views/per_page/rows"), ("POST", "/sql"), ("POST", "/sources/hits/events")):
                headers = [(name.encode(), value)]
                answer = ask(asker, method, path, headers=headers, content=None if method == "GET" else b"{}")
                no_failure(answer, (name, value, path))


@pytest.mark.parametrize("text", LONE[1:2], ids=ascii)
def test_invalid_text_in_bodies_is_refused(asker: Asker, document: dict[str, Any], text: str) -> None:
    """In each field of each body, as a value, within one and as a name."""
    for path, method, described in routes(document):
        content = described.get("requestBody", {}).get("content", {})
        if method != "POST" or "application/json" not in content:
            continue
        schema = content["application/json"].get("schema", {})
        known = document["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], {})
        fields = [*known.get("properties", {}), "statement", "keys", text]
        for name in fields:
            for value in (text, {text: text}, [{"page": text}], [{"page": "x", text: None}]):
                body = {name: value}
                for whole in (body, {"keys": [{"page": "/01"}], **body}, {"statement": "SELECT 1", **body}):
                    answer = post(asker, filled(path, ""), whole)
                    no_failure(answer, (path, whole))
                    assert answer.status_code >= 400, (path, whole)
        for no_object in (text, [text], None):
            no_failure(post(asker, filled(path, ""), no_object), (path, no_object))
