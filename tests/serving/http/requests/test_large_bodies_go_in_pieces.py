"""While a large body is compressed and sent, other requests have their turn; the client receives the same bytes."""

import asyncio
import random
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Message, Receive, Scope, Send

from tandem.serving.http.middleware import PIECE, Pieces

LARGE = random.Random(1).randbytes(20 * PIECE + 1)


def answering(*bodies: bytes) -> Any:
    """An application that answers with these parts of a body."""

    async def app(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        for number, body in enumerate(bodies):
            await send({"type": "http.response.body", "body": body, "more_body": number + 1 < len(bodies)})

    return app


async def nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def answered(app: Any, *headers: tuple[bytes, bytes]) -> tuple[list[Message], list[int]]:
    """The messages, and how often another task had its turn before each of them."""
    messages, turns, seen = list[Message](), 0, list[int]()

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def send(message: Message) -> None:
        messages.append(message)
        seen.append(turns)

    task = asyncio.create_task(other())
    await app({"type": "http", "method": "GET", "headers": list(headers)}, nothing, send)
    task.cancel()
    return messages, seen


@given(st.lists(st.sampled_from([0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 5]), min_size=1, max_size=4))
def test_the_bytes_are_the_same_and_the_last_message_alone_ends_the_body(sizes: list[int]) -> None:
    bodies = [LARGE[:size] for size in sizes]
    messages, _ = asyncio.run(answered(Pieces(answering(*bodies))))
    sent = messages[1:]
    assert b"".join(message["body"] for message in sent) == b"".join(bodies)
    assert [message["more_body"] for message in sent] == [True] * (len(sent) - 1) + [False]
    assert max(len(message["body"]) for message in sent) <= PIECE


def test_another_task_has_its_turn_between_any_two_pieces() -> None:
    messages, turns = asyncio.run(answered(Pieces(answering(LARGE))))
    assert len(messages) == 22
    assert sorted(set(turns[1:])) == turns[1:]


@pytest.mark.parametrize("content", [LARGE, bytes(len(LARGE))], ids=["noise", "zeros"])
def test_a_body_is_compressed_piece_by_piece(content: bytes) -> None:
    app = GZipMiddleware(Pieces(answering(content)), minimum_size=1000, compresslevel=3)
    messages, turns = asyncio.run(answered(app, (b"accept-encoding", b"gzip")))
    assert zlib.decompress(b"".join(message["body"] for message in messages[1:]), wbits=31) == content
    assert len(set(turns)) >= 20
