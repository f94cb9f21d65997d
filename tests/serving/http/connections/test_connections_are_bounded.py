"""Which connections are kept, and how slow they may be: the rules alone, then on a socket."""

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from tandem.infra.settings import ServingSettings
from tandem.serving.http.connections.admission import Admission, Door, Starts
from tandem.serving.http.metrics import Metrics
from tests.serving.http.served import Served, serving
from tests.serving.world import World, forty_hits

Steps = list[tuple[str, bool]]
ADDRESSES = st.sampled_from("abc")


@given(st.lists(st.tuples(ADDRESSES, st.sampled_from((True, True, True, False))), max_size=60), st.sets(st.integers(0, 120)))
def test_an_address_with_few_connections_is_accepted_whatever_others_hold(steps: Steps, busy: set[int]) -> None:
    admission: Admission[int] = Admission(5, 4, busy=busy.__contains__)
    held: dict[int, str] = {}
    for number, (address, enters) in enumerate(steps):
        counts = Counter(held.values())
        if enters:
            let_in, ended = admission.enter(address, number)
            if counts[address] >= 4:
                assert (let_in, ended) == (False, None)
            elif len(held) < 5:
                assert (let_in, ended) == (True, None)
            elif max(counts.values()) > counts[address] + 1:
                assert let_in
                assert ended is not None
                assert counts[held[ended]] == max(counts.values())
                # The longest unused one that is not answering, or the longest unused one.
                theirs = [one for one, of in held.items() if of == held[ended]]
                assert ended == next((one for one in theirs if one not in busy), theirs[0])
                del held[ended]
            else:
                assert (let_in, ended) == (False, None)
            if let_in:
                held[number] = address
        elif own := [one for one, of in held.items() if of == address]:
            admission.leave(address, own[0])
            del held[own[0]]
        assert len(held) <= 5
        assert max(Counter(held.values()).values(), default=0) <= 4


def test_an_address_that_may_replace_loses_its_own_oldest_connection() -> None:
    admission: Admission[int] = Admission(10, 2, busy=lambda _: False, replace=True)
    assert [admission.enter("a", number).let_in for number in (1, 2)] == [True, True]
    admission.used("a", 1)
    assert admission.enter("a", 3) == (True, 2)


@given(st.integers(1, 10**6), st.integers(0, 60), st.lists(st.tuples(st.integers(1, 60), st.integers(0, 10**7)), max_size=30))
def test_a_transfer_at_the_rate_is_never_too_slow_and_a_stopped_one_is(
    rate: int, grace: int, steps: list[tuple[int, int]]
) -> None:
    door = Door(ServingSettings(least_bytes_s=rate, grace_s=grace), 1, Metrics(), structlog.get_logger(), lambda: 0.0)
    now = done = 0
    for seconds, size in steps:
        now, done = now + seconds, done + size
        slow = now >= door.pace(0, done)
        assert slow == (now >= grace + done / rate)
        if done >= rate * now and grace:
            assert not slow
    assert now + grace + done / rate + 1 >= door.pace(0, done)


@given(st.lists(st.sampled_from("bcd"), min_size=1, max_size=100), st.integers(1, 8))
def test_a_request_waits_for_at_most_one_of_each_other_address(flood: list[str], each_turn: int) -> None:
    order: list[str] = []

    async def begun() -> list[int]:
        starts, turns = Starts(each_turn), []

        async def start(address: str) -> None:
            await starts.turn(address)
            order.append(address)

        async with asyncio.TaskGroup() as group:
            for address in [*flood, "a"]:
                group.create_task(start(address))
            while len(order) < len(flood) + 1:
                before = len(order)
                await asyncio.sleep(0)
                turns.append(len(order) - before)
        return turns

    turns = asyncio.run(begun())
    first = next(count for count in turns if count)
    assert max(turns) <= each_turn
    assert sorted(order) == sorted([*flood, "a"])
    behind = Counter(order[min(len(flood), first) : order.index("a")])
    assert all(count <= 1 for count in behind.values())


def test_a_request_that_is_cancelled_takes_no_turn() -> None:
    async def begun() -> list[bool]:
        starts = Starts(1)
        tasks = [asyncio.create_task(starts.turn("a")) for _ in range(4)]
        while starts._waiting.get("a") is None:  # noqa: ASYNC110 - it waits for turns of the loop
            await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.wait(tasks, timeout=60)
        return [task.cancelled() for task in tasks]

    assert asyncio.run(begun()) == [False, True, False, False]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return forty_hits(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def usual(world: World) -> Iterator[str]:
    """The address of a server with the usual bounds."""
    with serving(Served(world)) as address:
        yield address


def connected(address: str, host: str = "127.0.0.1") -> socket.socket:
    url = httpx.URL(address)
    return socket.create_connection((url.host, url.port), timeout=60, source_address=(host, 0))


def answer(sock: socket.socket) -> bytes:
    """All that comes until the server ends the connection."""
    found = b""
    while piece := sock.recv(1 << 16):
        found += piece
    return found


def test_beyond_the_limit_of_an_address_only_health_checks_are_answered(world: World) -> None:
    served = Served(world, {"connections_per_address": 2})
    with serving(served) as address:
        kept = [connected(address) for _ in range(2)]
        with connected(address) as third:
            third.sendall(b"GET /readyz?x HTTP/1.1\r\nHost: served\r\n\r\n")
            assert b"400 Bad Request" in answer(third)  # by the route
        with connected(address) as third:
            third.sendall(b"GET /readyz HTTP/1.1\r\nHost: served\r\n\r\n")
            assert b"200 OK" in answer(third)
        with connected(address) as third:
            third.sendall(b"GET /me HTTP/1.1\r\nHost: served\r\n\r\n")
            refused = answer(third)
            assert b"503 Service Unavailable" in refused
            assert b"the server keeps 2 per address" in refused
        with connected(address, "127.0.0.2") as other:
            other.sendall(b"GET /me HTTP/1.1\r\nHost: served\r\nConnection: close\r\n\r\n")
            assert b"401 Unauthorized" in answer(other)
        for one in kept:
            one.close()


def test_a_client_reads_the_refusal_of_an_unfinished_body(usual: str) -> None:
    with connected(usual) as sock:
        sock.sendall(b"POST /sql HTTP/1.1\r\nHost: served\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 200_000)
        found = answer(sock)
        assert b"401 Unauthorized" in found
        assert b"connection: close" in found


def test_a_body_that_is_too_slow_ends_its_connection(world: World) -> None:
    served = Served(world, {"grace_s": 1, "least_bytes_s": 1000})
    head = f"POST /sql HTTP/1.1\r\nHost: served\r\nAuthorization: Bearer {served.token('trickles', may=('sql',))}\r\n".encode()
    head += b"Content-Type: application/json\r\nConnection: close\r\n"
    with serving(served) as address:
        with connected(address) as slow:
            slow.sendall(head + b"Content-Length: 40\r\n\r\n{")
            assert answer(slow) == b""
        body = b'{"statement": "SELECT 1"}'
        with connected(address) as quick:
            quick.sendall(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            assert b"200 OK" in answer(quick)


def test_an_unread_response_ends_its_connection_and_releases_its_share(world: World) -> None:
    served = Served(world, {"grace_s": 1})
    secret = served.token("deaf", may=("sql",))
    body = b'{"statement": "SELECT repeat(\'x\', 30000000)"}'
    with serving(served) as address, connected(address) as deaf:
        deaf.sendall(
            f"POST /sql HTTP/1.1\r\nHost: served\r\nAuthorization: Bearer {secret}\r\nContent-Type: application/json\r\n".encode()
            + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        assert deaf.recv(12) == b"HTTP/1.1 200"
        seen = threading.Event()
        assert served.server.unread.held("token:deaf") > 30_000_000
        while served.server.unread.held("token:deaf"):
            seen.wait(0.05)
        assert not served.server.limits._uses["token:deaf"].running


@pytest.mark.each_run("headers", "head", "tls", "h2", "chunks")
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /me HTTP/1.1\r\n" + b"a:\r\n" * 200 + b"\r\n", b"431"),
        (b"GET /me HTTP/1.1\r\nX: " + b"x" * (80 << 10), b"431"),
        (b"\x16\x03\x01" + bytes(100), b"400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400"),
        (b"GET /me HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", b"401"),
        (b"POST /sql HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 50_000, b""),
    ],
    ids=["headers", "head", "tls", "h2", "upgrade", "chunks"],
)
def test_bytes_that_are_not_http_end_their_connection(usual: str, sent: bytes, status: bytes) -> None:
    with connected(usual) as sock:
        try:
            sock.sendall(sent)
            found = answer(sock)
        except ConnectionError:
            found = b""
        assert found[9 : 9 + len(status)] == status
