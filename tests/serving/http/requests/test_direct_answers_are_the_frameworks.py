"""A request that is answered in front of the framework gets what the framework answers: status, headers, body and log lines."""

import re
import socket
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tandem.serving.access import tokens
from tandem.serving.access.rights import VERBS
from tandem.serving.access.sealed_text import KEY
from tandem.serving.http.queries import answer_question
from tandem.serving.http.queries import look_up as direct
from tandem.serving.http.queries.look_up import Direct
from tests.samples import just
from tests.serving.http.queries.test_a_snapshot_stays_as_it_is import WITH_QUANTILES
from tests.serving.http.served import Asker, Served, serving
from tests.serving.world import NOON, unusual_pages

HOST = (b"host", b"served")
Message = MutableMapping[str, Any]


@dataclass(frozen=True)
class Request:
    """A request as a server hands it on; `spent` says that its token has no request left."""

    method: str
    path: str
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    spent: bool = False


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(unusual_pages(tmp_path_factory.mktemp("world"), WITH_QUANTILES), {"wait_s": 1, "poll_ms": 3_600_000})


@pytest.fixture(scope="module")
def secrets(served: Served) -> Mapping[str, bytes]:
    found = {
        "all": served.token("all", may=VERBS),
        "bound": served.token("bound", rows=["page=/a"]),
        "other view": served.token("other view", views=["ever"]),
        "no read": served.token("no read", may=("ingest",)),
        "expired": served.token("expired", days=-1),
        "revoked": served.token("revoked"),
        "guessed": tokens.PREFIX + "A" * 43,
        "foreign": "eyJhbGciOiJub25lIn0.e30.",
    }
    tokens.revoke(served.world.tables, "revoked", now=NOON)
    return {name: secret.encode() for name, secret in found.items()}


@pytest.fixture(scope="module")
def asker(served: Served, secrets: Mapping[str, bytes]) -> Iterator[Asker]:
    with served.asker(secrets["all"].decode()) as found:
        for view in ("per_page", "ever", "inverse"):
            assert found.get(f"/views/{view}/rows").status_code == 200  # from now on they are in memory
        yield found


async def answered(served: Served, request: Request) -> tuple[int, list[tuple[bytes, bytes]], bytes, list[Any]]:
    """What the application sends, and what it logs of it."""
    server, messages = served.server, []
    server.limits._uses.clear()
    server.failures._buckets.clear()
    if request.spent:
        for name in ("all", "bound"):
            while server.limits.enter(f"token:{name}") is None:
                server.limits.leave(f"token:{name}")
    served.lines.clear()
    served.questions.clear()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        messages.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "server": ("served", 80),
        "client": ("192.0.2.7", 4711),
        "root_path": "",
        "path": request.path,
        "raw_path": quote(request.path).encode(),
        "query_string": request.query,
        "headers": list(request.headers),
        "state": {},
    }
    await served.app(scope, receive, send)
    start, *rest = messages
    body = b"".join(message.get("body", b"") for message in rest)
    logged = [{name: value for name, value in line.items() if name != "ms"} for line in (*served.lines, *served.questions)]
    assert all(not use.running for use in server.limits._uses.values())
    return start["status"], list(start["headers"]), body, logged


def both(served: Served, asker: Asker, request: Request) -> tuple[int, list[tuple[bytes, bytes]], bytes, list[Any]]:
    """The answer of both ways, which is the same."""
    first = asker.runner.run(answered(served, request))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Direct, "answer", lambda *_: None)
        assert asker.runner.run(answered(served, request)) == first
    return first


PAGES = st.sampled_from(["/a", "é &=", "", "/never", "x" * 300, "\0", "%"]) | st.text(max_size=8)
WINDOWS = st.sampled_from(
    ["2026-11-01T12:00", "2026-11-01T12:01", "2026-11-01T13:00+01:00", "noon", "", "9999-12-31T23:59:59.999999"]
)
VALUES = {
    "key.page": PAGES,
    "key.odd": st.sampled_from(["true", "false", "7", ""]),
    "null": st.sampled_from(["page", "odd", "page=x", "pag"]),
    "window": WINDOWS,
    "measures": st.sampled_from(["n", "n,typical", "mean", "", "m", "n,n"]),
    "layer": st.sampled_from(["merged", "batch", "speed", "hot"]),
    "publication": st.sampled_from(["1", "2", "x", "99"]),
    "as_of": st.sampled_from(["2026-11-01", "x"]),
    "min_position": st.sampled_from(['{"T": {"0": 3}}', "{}", "[]"]),
    "max_age": st.sampled_from(["100000d", "1x"]),
    "escape_formulas": st.sampled_from(["true", "2"]),
    "key.": PAGES,
    "key.pag": PAGES,
    "limit": st.just("3"),
    "pages": PAGES,
    "l" * 1200: PAGES,  # what is said of it is large enough to be compressed
}
PAIRS = st.sampled_from(sorted(VALUES)).flatmap(lambda name: st.tuples(st.just(name), VALUES[name]))
GOOD = PAGES.map(lambda page: [("key.page", page), ("window", "2026-11-01T12:00")])
QUERIES = st.one_of(
    st.tuples(GOOD, st.lists(PAIRS, max_size=2)).map(lambda both: [*both[0], *both[1]]),
    st.lists(PAIRS, max_size=4),
).map(lambda pairs: "&".join(f"{name}={quote(value, safe='')}" for name, value in pairs).encode())
RAW = st.sampled_from([b"key.page=%ff", b"key.page=%C3%A9", b"&&=", b"key.page", b"key.page=a+b", b"%6bey.page=/a", b"a;b", b"%"])
PATHS = st.sampled_from(
    [
        *["/views/per_page/row"] * 6,
        "/views/ever/row",
        "/views/inverse/row",
        "/views/never/row",
        "/views//row",
        "/views/row",
        "/views/a/b/row",
        "/views/per_page/row/",
        "/views/per_page/row\n",
        "/views/per_page/rows",
        "//views/per_page/row",
        "/VIEWS/per_page/row",
        f"/views/{'v' * 201}/row",
        "/views/é/row",
        "/",
    ]
)
METHODS = st.sampled_from([*["GET"] * 8, "HEAD", "POST", "OPTIONS", "DELETE"])
ACCEPTS = (
    b"*/*",
    b"application/json",
    b"text/csv",
    b"application/vnd.apache.arrow.stream",
    b"text/html",
    b"application/json;q=0.5",
    b"",
)


@st.composite
def requests(draw: st.DrawFn, secrets: Mapping[str, bytes]) -> Request:
    """Requests that are valid, invalid or hostile."""
    headers: list[tuple[bytes, bytes]] = draw(st.sampled_from([[HOST]] * 8 + [[], [HOST, HOST], [(b"host", b"a/b")]]))
    who = draw(st.sampled_from(["all"] * 6 + ["bound"] * 3 + [*secrets]))
    scheme = draw(st.sampled_from([b"Bearer "] * 8 + [b"bearer  ", b"Basic ", b"Bearer", b""]))
    headers = [*headers, (b"authorization", scheme + secrets[who])] if draw(st.integers(0, 9)) else headers
    if draw(st.booleans()):
        headers = [*headers, (b"accept", draw(st.sampled_from(ACCEPTS)))]
    if draw(st.booleans()):
        headers = [*headers, (b"accept-encoding", draw(st.sampled_from([b"gzip", b"gzip, br", b"identity"])))]
    odd = st.sampled_from(
        [
            (b"if-none-match", b"*"),
            (b"if-none-match", b'W/"x"'),
            (b"authorization", b"Bearer x"),
            (b"accept", b"text/csv"),
            (b"content-length", b"2000000"),
            (b"content-length", b"x"),
            (b"range", b"bytes=0-3"),
            (b"x-large", b"a" * 40_000),
            (b"x-forwarded-for", b"192.0.2.9"),
            (b"content-encoding", b"br"),
        ]
    )
    headers = [*headers, *draw(st.lists(odd, max_size=2))]
    query = draw(QUERIES | RAW)
    return Request(draw(METHODS), draw(PATHS), query, tuple(headers), spent=draw(st.integers(0, 9)) == 0)


@settings(just(300, quick=40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_both_ways_answer_alike(served: Served, asker: Asker, secrets: Mapping[str, bytes], data: st.DataObject) -> None:
    request = data.draw(requests(secrets))
    status, headers, _, _ = both(served, asker, request)
    entity = dict(headers).get(b"etag")
    if status == 200 and entity is not None:
        again = Request(request.method, request.path, request.query, (*request.headers, (b"if-none-match", entity)))
        assert both(served, asker, again)[0] == (304 if b"if-none-match" not in dict(request.headers) else 200)


def look_up(secrets: Mapping[str, bytes], *headers: tuple[bytes, bytes], page: str = "/a", more: str = "") -> Request:
    bearer = (b"authorization", b"Bearer " + secrets["all"])
    query = f"key.page={quote(page, safe='')}&window=2026-11-01T12:00{more}".encode()
    return Request("GET", "/views/per_page/row", query, (HOST, bearer, *headers))


def test_a_plain_look_up_does_without_the_framework(
    served: Served, asker: Asker, secrets: Mapping[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(type(served.app), "framework")
    served.app.wire._app = None
    try:
        status, _, body, logged = asker.runner.run(answered(served, look_up(secrets)))
        assert (status, b'"n":' in body) == (200, True)
        assert [(line["event"], line.get("path") or line["route"]) for line in logged] == [
            ("request", "/views/per_page/row"),
            ("question", "/views/{view}/row"),
        ]
    finally:
        monkeypatch.undo()
        served.app.wire._app = served.app.framework


def test_a_large_row_is_compressed_for_who_accepts_that(
    served: Served, asker: Asker, secrets: Mapping[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem.serving.http.queries.look_up.COMPRESSED", 10)
    found = asker.runner.run(answered(served, look_up(secrets, (b"accept-encoding", b"gzip"))))
    assert dict(found[1])[b"content-encoding"] == b"gzip"
    plain = asker.runner.run(answered(served, look_up(secrets)))
    assert b"content-encoding" not in dict(plain[1])
    # From this size on, as in the framework.
    for least, compressed in ((len(plain[2]), True), (len(plain[2]) + 1, False)):
        monkeypatch.setattr("tandem.serving.http.queries.look_up.COMPRESSED", least)
        found = asker.runner.run(answered(served, look_up(secrets, (b"accept-encoding", b"gzip"))))
        assert (b"content-encoding" in dict(found[1])) is compressed


@pytest.mark.parametrize("more", ["", "&layer=merged", "&null=other", "&measures=m"])
def test_a_request_counts_once_against_its_limit_whoever_answers(
    served: Served, asker: Asker, secrets: Mapping[str, bytes], more: str
) -> None:
    _, _, _, logged = asker.runner.run(answered(served, look_up(secrets, more=more)))
    (use,) = served.server.limits._uses.values()
    assert (use.left, len(logged)) == (served.server.settings.burst - 1, 2)


@pytest.mark.parametrize(
    "more",
    [
        "layer=batch",
        "layer=speed",
        "publication=1",
        "publication=2",
        "max_age=1x",
        "limit=3",
        "pages=/a",
        "null=page",
        "key.odd=true",
    ],
)
def test_one_more_parameter_changes_the_question_on_both_ways(
    served: Served, asker: Asker, secrets: Mapping[str, bytes], more: str
) -> None:
    found = both(served, asker, look_up(secrets, more=f"&{more}"))
    assert found[2] != both(served, asker, look_up(secrets))[2]


def test_a_defect_is_answered_and_raised_on_both_ways(
    served: Served, asker: Asker, secrets: Mapping[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(direct, "one_row", broken)
    monkeypatch.setattr(answer_question, "question_of", broken)
    found = []
    for patched in (False, True):
        with monkeypatch.context() as patch:
            if patched:
                patch.setattr(Direct, "answer", lambda *_: None)
            sent = asker.get("/views/per_page/row?key.page=/a&window=2026-11-01T12:00")
            served.lines.clear()
            served.questions.clear()
            # The server logs what is raised.
            with pytest.raises(RuntimeError, match="a defect"):
                asker.runner.run(answered(served, look_up(secrets)))
            lines = [(line["event"], line.get("who"), line.get("status")) for line in (*served.lines, *served.questions)]
            found.append((sent.status_code, sent.json()["detail"], sorted(sent.headers), lines))
    assert found[0] == found[1]
    assert found[0][:2] == (500, "internal error; see the server's log")


@dataclass(frozen=True)
class Sender:
    """Sends look-ups over a connection that the last one ends."""

    address: str
    secret: str

    def sent(self, *paths: str, more: Sequence[str] = (), version: str = "1.1") -> bytes:
        """What is answered, without the time of day."""
        url, bearer = httpx.URL(self.address), f"Authorization: Bearer {self.secret}"
        heads = [["Host: served", bearer, *more, *["Connection: close"] * (one == len(paths))] for one, _ in enumerate(paths, 1)]
        lines = [line for path, head in zip(paths, heads, strict=True) for line in (f"GET {path} HTTP/{version}", *head, "")]
        with socket.create_connection((url.host, url.port), timeout=60) as client:
            client.sendall("\r\n".join([*lines, ""]).encode())
            answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
        return re.sub(rb"date: [^\r]*\r\n", b"", answer)


@pytest.fixture(scope="module")
def sender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sender]:
    served = Served(unusual_pages(tmp_path_factory.mktemp("world"), WITH_QUANTILES), {"poll_ms": 3_600_000})
    with serving(served) as address:
        found = Sender(address, served.token("desk"))
        assert b" 200 " in found.sent("/views/per_page/rows")  # from now on it is in memory
        yield found


ONE = "/views/per_page/row?key.page=/a&window=2026-11-01T12:00"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize(
    "more",
    [[], ["Accept: */*", "Accept-Encoding: gzip"], ['If-None-Match: "x", *'], ["Expect: 100-continue"]],
)
@pytest.mark.parametrize("number", [1, 3])
def test_a_connection_sends_what_the_framework_would(sender: Sender, version: str, more: Sequence[str], number: int) -> None:
    usual = sender.sent(*[f"{ONE}&layer=merged"] * number, more=more, version=version)
    assert sender.sent(*[ONE] * number, more=more, version=version) == usual
    assert b" 200 " in usual or b" 304 " in usual


def test_a_key_that_cannot_be_read_for_a_while_fails_questions_and_takes_none_of_their_places(tmp_path: Path) -> None:
    served = Served(unusual_pages(tmp_path, WITH_QUANTILES), {"concurrent": 2})
    blocked = Path(served.world.tables.root, KEY)
    blocked.mkdir()
    with served.asker() as asker:
        store, path = served.server.lane.cache.store, "/views/per_page/row?key.page=/a&window=2026-11-01T12:00"
        pinned = store.pinned()
        assert store.in_memory(pinned, pinned.view("per_page"))
        assert [asker.get(path).status_code for _ in range(4)] == [503] * 4
        blocked.rmdir()
        assert asker.get(path).status_code == 200
