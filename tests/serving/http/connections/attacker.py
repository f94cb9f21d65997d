"""A hostile client as a process: NAME ADDRESS TOKEN. It says when its attack is under way, and goes on until its input ends.

Each attack is a coroutine for one connection, begun anew whenever the server ends it, and how many there are of it.
"""

import asyncio
import resource
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import cast
from urllib.parse import urlsplit

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_HERE = "127.0.0.1"
_STEP_S = 0.2
_LONG = '{"statement": "SELECT count(*) FROM range(100000000000)"}'
_LARGE = '{"statement": "SELECT repeat(\'x\', 30000000)"}'


class Attacker:
    """`address` and `token` of the server; `begun` counts the connections of the attack."""

    def __init__(self, address: str, token: str) -> None:
        at = urlsplit(address)
        self.port, self.tls, self.token = at.port, at.scheme == "https", token
        self.begun = 0
        self.numbers = count()

    async def connected(self, host: str = _HERE, *, receive: int | None = None, bare: bool = False) -> Streams:
        """A connection; over TLS if the server has it, unless it is to be `bare`."""
        sock = socket.socket()
        sock.setblocking(False)
        if receive is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        try:
            sock.bind((host, 0))
            await asyncio.get_running_loop().sock_connect(sock, (_HERE, self.port))
            if not self.tls or bare:
                return await asyncio.open_connection(sock=sock, limit=1 << 12)
            return await asyncio.open_connection(sock=sock, limit=1 << 12, ssl=_trusting(), server_hostname=_HERE)
        except BaseException:
            sock.close()
            raise

    def head(self, what: str, *headers: str) -> bytes:
        return "\r\n".join([f"{what} HTTP/1.1", "Host: served", f"Authorization: Bearer {self.token}", *headers, "", ""]).encode()

    def post(self, path: str, body: str) -> bytes:
        return self.head(f"POST {path}", "Content-Type: application/json", f"Content-Length: {len(body)}") + body.encode()

    async def drained(self, streams: Streams) -> None:
        """Read until the server ends the connection."""
        while await streams[0].read(1 << 16):
            pass

    async def held(self, streams: Streams) -> None:
        """Read nothing, and find out by then and now that the server has ended the connection."""
        while not streams[1].is_closing():
            await asyncio.sleep(_STEP_S)
            streams[1].write(b"")
            cast("asyncio.Transport", streams[1].transport).pause_reading()

    async def trickle(self, streams: Streams, *headers: str, piece: bytes = b"x") -> None:
        streams[1].write(self.head("POST /sql", "Content-Type: application/json", *headers))
        self.begun += 1
        while True:
            await asyncio.sleep(_STEP_S)
            streams[1].write(piece)
            await streams[1].drain()

    async def bodies(self) -> None:
        await self.trickle(await self.connected(), "Content-Length: 100000")

    async def chunk_flood(self) -> None:
        streams = await self.connected()
        streams[1].write(self.head("POST /sql", "Content-Type: application/json", "Transfer-Encoding: chunked"))
        self.begun += 1
        while True:
            streams[1].write(b"1;" + b"x" * 200 + b"\r\n \r\n" if next(self.numbers) % 2 else b"1\r\n \r\n" * 1000)
            await streams[1].drain()

    async def heads(self) -> None:
        streams = await self.connected()
        streams[1].write(b"GET /me HTTP/1.1\r\n")
        self.begun += 1
        for number in count():
            await asyncio.sleep(_STEP_S)
            streams[1].write(f"X-{number}: {number}\r\n".encode())
            await streams[1].drain()

    async def handshakes(self) -> None:
        """A greeting of TLS that is never whole."""
        streams = await self.connected(bare=True)
        streams[1].write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        self.begun += 1
        while True:
            await asyncio.sleep(_STEP_S)
            streams[1].write(b"x")
            await streams[1].drain()

    async def many_addresses(self) -> None:
        number = next(self.numbers)
        streams = await self.connected(f"127.0.{1 + number % 2}.{1 + number // 2 % 20}")
        self.begun += 1
        await self.drained(streams)

    async def churn(self) -> None:
        streams = await self.connected()
        self.begun += 1
        streams[1].transport.abort()

    async def pipelined(self) -> None:
        streams = await self.connected()
        self.begun += 1
        streams[1].write(b"GET / HTTP/1.1\r\n\r\n" * 14_000)
        await self.drained(streams)

    async def flood(self) -> None:
        streams = await self.connected()
        self.begun += 1
        while True:
            streams[1].write(self.head("GET /views"))
            if not await streams[0].read(1 << 12):
                return

    async def slow_events(self) -> None:
        """Bodies of events that are announced as large as they may be, and come slowly."""
        streams = await self.connected()
        streams[1].write(self.head("POST /sources/hits/events", "Content-Type: application/json", "Content-Length: 1000000"))
        self.begun += 1
        while True:
            await asyncio.sleep(_STEP_S)
            streams[1].write(b" " * 400)
            await streams[1].drain()

    async def large_bodies(self) -> None:
        streams = await self.connected()
        self.begun += 1
        body = '{"keys": [' + ",".join(['{"page": "/a"}'] * 9_999) + "]}"
        while True:
            streams[1].write(self.post("/views/per_page/lookup", body))
            if not await streams[0].read(1 << 12):
                return

    async def statements(self) -> None:
        streams = await self.connected()
        streams[1].write(self.post("/sql", _LONG))
        self.begun += 1
        await self.drained(streams)

    async def unread(self) -> None:
        streams = await self.connected(receive=4096)
        streams[1].write(self.post("/sql", _LARGE))
        self.begun += 1
        await self.held(streams)

    async def streams(self) -> None:
        streams = await self.connected(receive=4096)
        streams[1].write(self.head("GET /views/per_page/changes"))
        self.begun += 1
        await self.held(streams)

    async def noise(self) -> None:
        streams = await self.connected()
        self.begun += 1
        number = next(self.numbers)
        upgrade = ("websocket", "h2c", "TLS/1.2")[number % 3]
        streams[1].write(
            (
                self.head("GET /me", "Connection: Upgrade, HTTP2-Settings", f"Upgrade: {upgrade}", "HTTP2-Settings: AAMAAABk"),
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(1000),
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
                self.head("CONNECT example.com:443") + bytes(1000),
                bytes(range(256)) * 100,
            )[number % 5]
        )
        await self.drained(streams)


def _trusting() -> ssl.SSLContext:
    """Any certificate will do."""
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found.check_hostname, found.verify_mode = False, ssl.CERT_NONE
    return found


NUMBERS = {
    "bodies": 1100,
    "chunk_flood": 4,
    "heads": 400,
    "handshakes": 400,
    "many_addresses": 600,
    "churn": 5,
    "pipelined": 5,
    "flood": 20,
    "slow_events": 90,
    "large_bodies": 5,
    "statements": 24,
    "unread": 12,
    "streams": 60,
    "noise": 10,
}


async def _again(one: Callable[[], Awaitable[None]]) -> None:
    while True:
        with suppress(OSError, asyncio.IncompleteReadError, ValueError):
            await one()
        await asyncio.sleep(0.01)


async def main(name: str, address: str, token: str) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    attacker, number = Attacker(address, token), NUMBERS[name]
    tasks = [asyncio.create_task(_again(getattr(attacker, name))) for _ in range(number)]
    while attacker.begun < number:  # noqa: ASYNC110 - all of them set it
        await asyncio.sleep(0.05)
    sys.stdout.write("under way\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    del tasks


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3]))
