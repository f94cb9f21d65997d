"""Requests that a route's fast path can answer, answered in front of the framework.

The framework's router, parameters and middleware take several times as long as to find a row in memory. Nothing else is left out:
the gate, the audit log, the fast path and the handlers of errors are the functions that the framework calls. What is not
plain, such as another method or a question that the fast path does not answer, goes on to the framework.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from serving.http.protocol.strict_json import StrictRequest
from serving.http.requests.gate import ENTERED, Gated
from serving.http.requests.pieces import Pieces

if TYPE_CHECKING:
    from starlette.responses import Response

COMPRESSED: Final = 1000
"""Bytes of a body from which on it is compressed, if the client accepts that."""
LEVEL: Final = 3
"""How hard it is compressed: answers are compressed while the client waits."""

_VALUE: Final = "{view}"


@dataclass(frozen=True)
class Direct:
    """A route whose path has one parameter, `{view}`, and a fast path; `handlers` are those of the application's errors."""

    app: FastAPI
    route: Gated
    handlers: Mapping[Any, Callable[..., Any]]
    _before: str = field(init=False, repr=False)
    _after: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        before, _, after = self.route.path_format.partition(_VALUE)
        object.__setattr__(self, "_before", before)
        object.__setattr__(self, "_after", after)

    async def answer(self, scope: Scope, receive: Receive) -> ASGIApp | None:
        """The response to a request; None if the framework has to answer it, in which case the gate lets it through once."""
        path: str = scope["path"]
        if scope["method"] != "GET" or not path.startswith(self._before) or not path.endswith(self._after):
            return None
        view = path[len(self._before) : -len(self._after)]
        if not view or "/" in view or scope.get("root_path"):
            return None
        scope["app"], scope["path_params"], scope["route"] = self.app, {"view": view}, self.route
        request = StrictRequest(scope, receive)
        try:
            await self.route.enter(request)
            found = await self.route.begin(request)  # no timeout: a GET is begun without waiting for anything
        except Exception as error:  # noqa: BLE001 - as in the framework, whose handlers are called
            return await self._handled(request, error)
        if found is None:
            scope["state"][ENTERED] = True
            return None
        return compressed(found)

    async def _handled(self, request: Request, error: Exception) -> ASGIApp:
        """The response to an error; to a defect one after which it is raised, as the framework does."""
        kind = next(kind for kind in type(error).__mro__ if kind in self.handlers)
        answer: Response = await self.handlers[kind](request, error)
        if kind is not Exception:
            return compressed(answer)

        async def failed(scope: Scope, receive: Receive, send: Send) -> None:
            await answer(scope, receive, send)
            raise error

        return failed


def compressed(answer: "Response") -> ASGIApp:
    """The same response, which is compressed and sent in pieces if it is large."""
    if len(answer.body) < COMPRESSED:
        return answer
    return GZipMiddleware(Pieces(answer), minimum_size=COMPRESSED, compresslevel=LEVEL)
