"""The server's application: routes, error handlers and middleware."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tandem.ledger.publish.promotion import NotReady
from tandem.serving.http.answer_cache.cache import Gone
from tandem.serving.http.middleware import Pieces, Wire
from tandem.serving.http.models import openapi as documented
from tandem.serving.http.protocol import problem
from tandem.serving.http.queries.look_up import COMPRESSED, LEVEL, Direct
from tandem.serving.http.requests.gate import Gated, gated
from tandem.serving.http.requests.server import Server
from tandem.serving.http.routes import ROUTERS
from tandem.serving.http.routes import rows as rows_of_views
from tandem.serving.read.selection import BadSelection
from tandem.serving.why.receipt import InvalidReceipt
from tandem.views.errors import TandemError

_ABOUT: Final = """Exact answers from a log: batch, speed, and one merged view of both.

The provenance of an answer states which events it counts, and up to which position. Answers of one snapshot are identical, byte
for byte. An answer is a value, no matching rows, or a problem with its reason: never a number that may be wrong.
"""


class Api(FastAPI):
    """An application whose layer `wire` stands in front of the framework's own."""

    wire: Wire

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        await self.wire(scope, receive, send)

    async def framework(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request by the framework's layers and routes."""
        await super().__call__(scope, receive, send)


def application(server: Server) -> Api:
    """The application of a server; it reads nothing before it starts. Raises TandemError if a route is not behind the gate."""

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        async with server.open():
            yield

    app = _api(lifespan=running)
    app.state.server = server
    made: dict[str, Any] = {}

    def cached() -> dict[str, Any]:
        if not made:
            made.update(document())
        return made

    app.openapi = cached  # type: ignore[method-assign]  # the framework's way to change it

    @app.router.get("/openapi.json", openapi_extra={"x-verb": "known"}, include_in_schema=False)
    def openapi() -> dict[str, Any]:  # in a thread: generating the document takes longer than other requests should wait
        """The API as an OpenAPI document."""
        return cached()

    app.add_exception_handler(BadSelection, _of(400))
    app.add_exception_handler(InvalidReceipt, _of(400))
    app.add_exception_handler(Gone, _of(410))
    app.add_exception_handler(NotReady, _of(404))
    app.add_exception_handler(TandemError, problem.of_tandem)
    app.add_exception_handler(HTTPException, problem.of_http)
    app.add_exception_handler(RequestValidationError, problem.of_validation)
    app.add_exception_handler(Exception, problem.of_defect)
    app.add_middleware(Pieces)  # the innermost, so that GZipMiddleware gets pieces
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESSED, compresslevel=LEVEL)
    (of_row,) = (route for route in gated(app) if route.endpoint is rows_of_views.row)
    app.wire = Wire(app.framework, server, Direct(server, of_row))
    return app


def document() -> dict[str, Any]:
    """The API as an OpenAPI document; it is the same for every server."""
    return documented.complete(FastAPI.openapi(_api()))


def _api(lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]] | None = None) -> Api:
    """The routes, each behind the gate."""
    api = Api(
        title="Tandem",
        version="1",
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    api.router.route_class = Gated
    for router in ROUTERS:
        api.include_router(router)
    return api


def _of(status: int) -> Any:
    """An error handler that answers with this status."""

    async def handled(_: Request, error: Exception) -> Response:
        assert isinstance(error, TandemError)
        return problem.response(status, str(error), code=error.code)

    return handled
