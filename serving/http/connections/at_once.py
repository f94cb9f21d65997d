"""Answers that a connection sends at once, without a task of the event loop and the messages between it and an application."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle


class Answer(NamedTuple):
    """A whole response, whose headers have lower-case names and include the body's length."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


AtOnce = Callable[[Scope], Answer | None]
"""The response to a request without a body; None if the application has to answer."""


class Prompt(HttpToolsProtocol):
    """uvicorn's protocol, which first asks `at_once` for an answer."""

    def __init__(self, *given: Any, at_once: AtOnce, **named: Any) -> None:
        super().__init__(*given, **named)
        self._at_once = at_once

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        # Not in this turn of the loop, in which the end of the request may not be parsed yet.
        self.loop.call_soon(self._answer, cycle, app)

    def _answer(self, cycle: RequestResponseCycle, app: Any) -> None:
        waits = cycle.more_body or cycle.disconnected or self.flow.write_paused
        answer = None if waits else self._at_once(cast("Scope", cycle.scope))
        if answer is None:
            super()._start_asgi_task(cycle, app)
            return
        cycle.response_started = cycle.response_complete = True
        lines = [b"%b: %b\r\n" % header for header in (*cycle.default_headers, *answer.headers)]
        end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        self.transport.write(b"".join((STATUS_LINE[answer.status], *lines, end, answer.body)))
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
