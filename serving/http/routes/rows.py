"""Rows of a view, and one of them."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from tandem.serving.http.models.openapi import rows as documented
from tandem.serving.http.models.rows import OneRowDocument, RowsDocument
from tandem.serving.http.protocol.parameters import KEY_VALUES, RowParameters, RowsParameters, View
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.ask import ask
from tandem.serving.http.queries.respond import respond
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import server_of

_READ: Final[dict[str, Any]] = {"x-verb": "read", **KEY_VALUES}

router = APIRouter(route_class=Gated, tags=["rows"])


@router.get("/views/{view}/rows", openapi_extra=_READ, response_model=RowsDocument, responses=documented(410))
async def rows(request: Request, view: View, parameters: Annotated[RowsParameters, Query()]) -> Response:
    """Rows of a view, ordered by window start, then keys, NULL last, unless another order is requested.

    All pages of a cursor come from one snapshot, whatever is counted meanwhile; 410 once the snapshot has expired.
    """
    most = server_of(request).settings.max_rows
    if parameters.limit > most:
        raise Problem(400, f"limit={parameters.limit} is too large; the maximum is {most}")
    found = await ask(request, view, parameters)
    return await respond(request, found, limit=parameters.limit, escaped=parameters.escaped)


@router.get("/views/{view}/row", openapi_extra=_READ, response_model=OneRowDocument, responses=documented(410))
async def row(request: Request, view: View, parameters: Annotated[RowParameters, Query()]) -> Response:
    """The row of one key and window; `row` is null, or there is none in other formats, if certainly nothing was counted."""
    found = await ask(request, view, parameters)
    if found.answer.table.num_rows > 1:
        raise Problem(400, f"{found.answer.table.num_rows} windows of view {view!r} start at this time; request its rows")
    return await respond(request, found, limit=None, escaped=parameters.escaped, single=True)
