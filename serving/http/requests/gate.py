"""The gate before every route: it authenticates the caller, checks rights and applies limits.

A route declares what it needs as `x-verb` in its OpenAPI entry: a verb, `known` for any valid token, or `open`. A route without
a declaration cannot be created.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import cached_property, partial
from typing import Any, Final, Literal

from fastapi import FastAPI, Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Header, Path
from fastapi.routing import APIRoute, iter_route_contexts

from tandem.serving.access.rights import VERBS, Principal, Verb
from tandem.serving.http.protocol.parameters import KEYS
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.requests import audit_log
from tandem.serving.http.requests.proper import StrictRequest
from tandem.serving.http.requests.server import LARGE, Server, held_by, principal_of, server_of
from tandem.views.errors import TandemError, listed

Needs = Verb | Literal["known", "open"]
NEEDS: Final = (*VERBS, "known", "open")
SEVERAL: Final = frozenset({"null"})
"""Parameters that may be repeated."""

UNREAD: Final = "{held} bytes of responses to this token are not read yet, which is its limit now; read them, then try again"

_NOBODY: Final = {"WWW-Authenticate": 'Bearer realm="tandem"'}
_INVALID: Final = {"WWW-Authenticate": 'Bearer realm="tandem", error="invalid_token"'}


class Gated(APIRoute):
    """A route behind the gate; if it `asks` for rows, its questions are in the audit log."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        extra: dict[str, Any] = dict(given.pop("openapi_extra", None) or {})
        needs: Any = extra.get("x-verb")
        if needs not in NEEDS:
            raise TandemError(f"route {path} has x-verb {needs!r}; expected one of {', '.join(NEEDS)}")
        if needs != "open":
            extra["security"] = [{"bearer": []}]
        self.needs: Needs = needs
        self.asks = "rows" in given.get("tags", ())
        super().__init__(path, endpoint, openapi_extra=extra, **given)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of requests that the gate lets through."""
        answer = super().get_route_handler()

        async def let_through(given: Request) -> Response:
            request = StrictRequest(given.scope, given.receive)
            server = server_of(request)
            if self.needs == "open":
                _refuse_unknown(request, self._named, free=self._free)
                return await answer(request)
            await self.enter(request)
            try:
                async with asyncio.timeout(server.settings.timeout_s):
                    if self.asks:
                        await audit_log.begin(request, self.path_format, server.seal)
                    response = await answer(request)
            except TimeoutError:
                raise Problem(504, f"no answer within {server.settings.timeout_s} s; narrow the request") from None
            _hold(server, request, str(principal_of(request)), len(getattr(response, "body", b"")))
            return response

        return let_through

    @cached_property
    def _named(self) -> list[str]:
        return [one.alias for one in get_flat_params(self.dependant) if not isinstance(one.field_info, Path | Header)]

    @cached_property
    def _free(self) -> bool:
        return any(one.get("name") == KEYS for one in (self.openapi_extra or {}).get("parameters", ()))

    async def enter(self, request: StrictRequest) -> None:
        """Let a request through that needs a right, as one of its principal's until it is answered. Raises Problem."""
        server = server_of(request)
        principal = await _known(server, request)
        if self.needs != "known" and self.needs not in principal.rights.verbs:
            held = ", ".join(sorted(principal.rights.verbs))
            raise Problem(403, f"this request needs the right {self.needs!r}; the token has {held}")
        if self.needs == "admin" and principal.rights.restricted:
            raise Problem(
                403, "this request concerns the whole project; a token that is restricted to views or rows may not send it"
            )
        _refuse_unknown(request, self._named, free=self._free)
        who = str(principal)
        wait = server.limits.enter(who)
        if wait is not None:
            raise Problem(429, f"too many requests; try again in {wait:.1f} s", headers={"Retry-After": f"{int(wait) + 1}"})
        held_by(request).callback(server.limits.leave, who)
        await server.lane.settled()


def withdraw(request: Request) -> None:
    """Return a request's share of its principal's limits, so that an inner request can take it."""
    held_by(request).pop_all()
    server_of(request).limits.withdraw(str(principal_of(request)))


def gated(app: FastAPI) -> list[Gated]:
    """The routes of an application. Raises TandemError if one of them is not behind the gate."""
    found = []
    for one in iter_route_contexts(app.routes):
        if not isinstance(one.original_route, Gated):
            raise TandemError(f"{one.path} is not behind the gate: its router has no route_class=Gated")
        found.append(one.original_route)
    return found


def _hold(server: Server, request: Request, who: str, size: int) -> None:
    """Count a large response until it is sent. Raises Problem 429 if too many bytes of the principal's are unread."""
    if size <= LARGE:
        return
    if not server.unread.take(who, size):
        raise Problem(429, UNREAD.format(held=server.unread.held(who)), headers={"Retry-After": "1"})
    held_by(request).callback(server.unread.give_back, who, size)


def bearer(authorization: str) -> str | None:
    """The token in a header; None if there is none."""
    scheme, _, shown = authorization.partition(" ")
    shown = shown.strip()
    return shown if shown and scheme.lower() == "bearer" else None


async def _known(server: Server, request: StrictRequest) -> Principal:
    shown = bearer(request.header(b"authorization") or "")
    if shown is None:
        raise Problem(401, "authentication required: send `Authorization: Bearer ...`", headers=_NOBODY)
    now = server.now()
    found = server.identities.recent(shown, now=now)
    if found is None:
        whose = partial(server.identities.whose, shown, now=now)
        found = await asyncio.to_thread(whose) if server.identities.waits(shown) else whose()
    if found is None:
        # Counted after the check: a valid token is accepted, whatever else arrives from its address.
        wait = server.failures.failed("" if request.client is None else request.client.host)
        if wait is not None:
            said = f"too many invalid tokens from this address; try again in {wait:.1f} s"
            raise Problem(429, said, headers={"Retry-After": f"{int(wait) + 1}"})
        # One sentence for all cases, so that a caller who guesses learns nothing.
        raise Problem(401, "the token is unknown, expired or revoked", headers=_INVALID)
    request.scope["state"]["principal"] = found
    return found


def _refuse_unknown(request: Request, named: list[str], *, free: bool) -> None:
    """Refuse an unknown parameter: a misspelt one would change the question."""
    seen = set()
    for name, _ in request.query_params.multi_items():
        if name not in named and not (free and name.startswith(KEYS)):
            keys = f"{KEYS}NAME, " if free else ""
            raise Problem(400, f"unknown parameter {name!r}; parameters: {keys}{listed(name, named)}")
        if name in seen and name not in SEVERAL:
            raise Problem(400, f"parameter {name!r} occurs twice; send it once")
        seen.add(name)
