"""The server's application, of its parts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response

from serving.http.answers.cache import Gone
from serving.http.models import openapi as documented
from serving.http.protocol import problem
from serving.http.requests.gate import Gated, gated
from serving.http.requests.middleware import Wire
from serving.http.requests.server import Server
from serving.http.routes import ROUTERS
from serving.read.selection import BadSelection
from views.errors import TandemError

_ABOUT = """Exact answers from a log: batch, speed, and one merged view of both.

         The provenance of an answer states which events it counts, and up to which position. Answers of one snapshot are
         identical, byte for byte. An answer is a value, no matching rows, or a problem with its reason: never a number that may
         be wrong.
         """


def application(server: Server) -> FastAPI:
    """The application; it reads nothing before it is started. Raises TandemError if a route is open that does not say so."""

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        async with server.open():
            yield

    app = FastAPI(
        title="Tandem",
        version="1",
        description=_ABOUT,
        lifespan=running,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.server = server
    app.router.route_class = Gated
    for router in ROUTERS:
        app.include_router(router)

    made: dict[str, Any] = {}

    def document() -> dict[str, Any]:
        if not made:
            made.update(documented.complete(FastAPI.openapi(app)))
        return made

    app.openapi = document  # type: ignore[method-assign]  # the framework's way to change it

    @app.router.get("/openapi.json", openapi_extra={"x-verb": "known"}, include_in_schema=False)
    def openapi() -> dict[str, Any]:  # in a thread: to make the document takes longer than others should wait
        """The API as an OpenAPI document."""
        return document()

    app.add_exception_handler(BadSelection, _of(400))
    app.add_exception_handler(Gone, _of(410))
    app.add_exception_handler(TandemError, problem.of_tandem)
    app.add_exception_handler(HTTPException, problem.of_http)
    app.add_exception_handler(RequestValidationError, problem.of_validation)
    app.add_exception_handler(Exception, problem.of_defect)
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=3)
    app.add_middleware(Wire, server=server)
    gated(app)
    return app


def _of(status: int) -> Any:
    """A handler of errors that are this status."""

    async def handled(_: Request, error: Exception) -> Response:
        return problem.response(status, str(error))

    return handled
