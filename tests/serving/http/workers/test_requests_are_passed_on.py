"""A request that another worker owns reaches it as it is; what that cannot answer is answered and recorded here."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from starlette.types import Message

from serving.http.requests.records import PARTS
from serving.http.workers import peers
from serving.http.workers.peers import Peers
from tests.serving.http.served import Served
from tests.serving.world import forty_hits

pytestmark = pytest.mark.anyio
PIECE = 64 << 10
MOST = 100
LONG_S = 60  # this machine may be busy: where something answers, no limit of time decides
Owner = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]"


@pytest.fixture
def served(tmp_path: Path) -> Served:
    """Worker 1 of two; nobody answers as worker 0 yet."""
    both = Peers(1, [tmp_path / "0", tmp_path / "1"], LONG_S, MOST * PIECE)
    (tmp_path / "project").mkdir()
    return Served(forty_hits(tmp_path / "project"), change={"body_kb": MOST * PIECE >> 10}, peers=both)


@asynccontextmanager
async def owner(served: Served, answers: Owner) -> AsyncIterator[None]:
    """Something that answers in worker 0's place."""
    assert served.peers is not None
    server = await asyncio.start_unix_server(answers, served.peers.sockets[0])
    try:
        yield
    finally:
        server.close()
        served.peers.sockets[0].unlink()


async def upload(served: Served, authorization: str | None, pieces: int) -> tuple[int, int]:
    """How many pieces of a body were read, and the status of the answer; 0 if none came within ten seconds."""
    read, status = 0, 0

    async def receive() -> Message:
        nonlocal read
        if read == pieces:
            await asyncio.Event().wait()
        read += 1
        await asyncio.sleep(0)
        return {"type": "http.request", "body": bytes(PIECE), "more_body": read < pieces}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)

    shown = [] if authorization is None else [(b"authorization", authorization.encode())]
    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/runs/plan",
        "raw_path": b"/runs/plan",
        "query_string": b"",
        "headers": [(b"host", b"served"), (b"transfer-encoding", b"chunked"), *shown],
        "client": ("127.0.0.1", 1),
        "app": served.app,
        "state": {},
    }
    with suppress(TimeoutError):
        async with asyncio.timeout(10):
            await served.app(scope, receive, send)
    return read, status


async def test_a_body_is_not_collected_before_it_is_passed_on(served: Served) -> None:
    async def deaf(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with served.client(), owner(served, deaf):
        assert await upload(served, None, MOST) == (0, 401)
        read, _ = await upload(served, "Bearer guessed", MOST)
        assert 0 < read < 30  # what the sockets' buffers take


async def test_a_body_is_passed_on_whole_and_no_more_than_is_allowed(served: Served) -> None:
    got = bytearray()

    async def listens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                while size := int(await reader.readline() or b"0", 16):
                    got.extend((await reader.readexactly(size + 2))[:-2])
                await reader.readline()
                writer.write(OK)

    async with served.client(), owner(served, listens):
        secret = served.token("operates", may=("read", "admin"))
        assert await upload(served, f"Bearer {secret}", 5) == (5, 200)
        assert len(got) == 5 * PIECE
        assert await upload(served, f"Bearer {secret}", MOST + 1) == (MOST + 1, 413)


async def test_a_mark_of_many_digits_is_no_mark(served: Served) -> None:
    digits = "1" * 5000
    async with served.client() as client, served.another(None) as nobody:
        for path in (f"rows?cursor={digits}~", f"changes?since={digits}~"):
            assert (await nobody.get(f"/views/per_page/{path}")).status_code == 401
            assert (await client.get(f"/views/per_page/{path}")).status_code == 400
        stream = await nobody.get("/views/per_page/changes", headers={"Last-Event-ID": f"{digits}~"})
        assert stream.status_code == 401


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("cursor=0~a&key.page=%C3%A9", "cursor=0~a&key.page=%C3%A9"),
        ("cursor=0~a&key.page=\xc3\xa9", "cursor=0~a&key.page=%C3%83%C2%A9"),
        ("cursor=0~a&key.page=/a/../b'\"<>|{}", "cursor=0~a&key.page=/a/../b'\"<>|{}"),
    ],
)
async def test_the_owner_is_asked_what_the_client_asks(served: Served, sent: str, read: str) -> None:
    lines: list[bytes] = []

    async def listens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.append(await reader.readline())
        writer.write(OK)

    async with served.client() as client, owner(served, listens):
        asked = httpx.Request("GET", "http://served/views/per_page/rows", headers=client.headers)
        scope = {"raw_path": b"/views/per_page/rows", "query_string": sent.encode("latin-1")}
        statuses = await passed_on(served, asked, scope)
    assert statuses == [200]
    assert lines == [f"GET /views/per_page/rows?{read} HTTP/1.1\r\n".encode()]


async def passed_on(served: Served, asked: httpx.Request, change: dict[str, Any]) -> list[int]:
    """The statuses of the answer to a request whose scope is changed."""
    statuses: list[int] = []

    messages: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if not messages:
            await asyncio.Event().wait()
        return messages.pop()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    headers = [(name.lower(), value) for name, value in asked.headers.raw]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": asked.method,
        "path": asked.url.path,
        "headers": headers,
        "state": {},
    }
    await served.app({**scope, "client": ("127.0.0.1", 1), "app": served.app, **change}, receive, send)
    return statuses


async def test_a_pause_while_it_connects_is_not_the_owners_silence(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = anyio.connect_unix

    async def paused(path: str) -> Any:
        await asyncio.sleep(0)
        time.sleep(2.1)  # noqa: ASYNC251  # as a machine does that gives this process no processor
        await asyncio.sleep(0)
        return await connect(path)

    async def listens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(OK)

    monkeypatch.setattr(anyio, "connect_unix", paused)
    async with served.client() as client, owner(served, listens):
        assert (await client.get("/views/per_page/rows?cursor=0~a")).status_code == 200


async def test_an_owner_that_accepts_nobody_is_waited_for_no_longer(served: Served) -> None:
    assert served.peers is not None
    served.peers.seconds = 0.5
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(served.peers.sockets[0]))
        deaf.listen(0)
        async with served.client() as client:
            found = await asyncio.gather(*(client.get("/views/per_page/rows?cursor=0~a") for _ in range(5)))
    assert [one.status_code for one in found] == [504] * 5


async def test_what_the_owner_does_not_answer_is_answered_and_recorded(served: Served) -> None:
    async def hangs(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def ends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.close()

    async with served.client() as client, served.another(None) as nobody:
        away = await client.get("/views/per_page/rows?cursor=0~a")
        assert (away.status_code, away.headers["retry-after"]) == (503, "1")
        assert "it is started again" in away.json()["detail"]
        assert (await nobody.get("/views/per_page/rows?cursor=0~a")).status_code == 401
        assert served.peers is not None
        served.peers.seconds = 0.5
        async with owner(served, hangs):
            late = await client.post("/runs/plan", json={})
        served.peers.seconds = LONG_S
        async with owner(served, ends):
            ended = await client.post("/runs/plan", json={})
        for answer, status, said in ((late, 504, "did not answer within 0.5 s"), (ended, 503, "ended before it answered")):
            assert answer.status_code == status
            assert said in answer.json()["detail"]
            assert "it may have begun what was asked" in answer.json()["detail"]
            assert "retry-after" not in answer.headers
            assert PARTS.decode() in answer.headers
        text = served.server.metrics.text().decode()
    assert [(line["status"], line["path"]) for line in served.lines if line["event"] == "request"] == [
        (503, "/views/per_page/rows"),
        (401, "/views/per_page/rows"),
        (504, "/runs/plan"),
        (503, "/runs/plan"),
    ]
    assert [(one["route"], one["status"]) for one in served.questions] == [("/views/{view}/rows", 503)]
    assert 'route="/runs/plan",status="504"} 1.0' in text


@pytest.mark.parametrize(("answer", "status"), [(None, 200), (OK, 200), (OK.replace(b"200 OK", b"503 No"), 503)])
async def test_others_are_asked_once_whether_they_are_ready(
    served: Served, monkeypatch: pytest.MonkeyPatch, answer: bytes | None, status: int
) -> None:
    monkeypatch.setattr(peers, "_READY_ASK_S", LONG_S if answer else 0.5)
    asked = 0

    async def listens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                asked += 1
                if answer is not None:
                    writer.write(answer)

    async with served.client(), owner(served, listens), served.another(None) as nobody:
        both = await asyncio.gather(nobody.get("/readyz"), nobody.get("/readyz"))
        again = [await nobody.get("/readyz") for _ in range(5)]
        assert {found.status_code for found in (*both, *again)} == {status}
        assert asked == 1
        served.seconds += 2
        await nobody.get("/readyz")
        assert asked == 2
