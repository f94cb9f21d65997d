"""Rows of a view, and one of them."""

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from serving.http.models.documents import OneRow, Rows
from serving.http.models.openapi import rows as documented
from serving.http.protocol.parameters import (
    KEY_VALUES,
    AsOf,
    CursorText,
    Escaped,
    From,
    LayerName,
    Limit,
    MaxAge,
    Measures,
    MinPosition,
    Null,
    Order,
    Publication,
    To,
    View,
    Window,
)
from serving.http.protocol.problem import Problem
from serving.http.queries import one_row
from serving.http.queries.response import Asked, find, key_texts, responded
from serving.http.requests import gate
from serving.http.requests.gate import Gated
from serving.http.requests.server import server_of

_READ: Final[dict[str, Any]] = {"x-verb": "read", **KEY_VALUES}

router = APIRouter(route_class=Gated, tags=["rows"])


@router.get("/views/{view}/rows", openapi_extra=_READ, response_model=Rows, responses=documented(410))
async def rows(
    request: Request,
    view: View,
    *,
    null: Null = [],  # noqa: B006 - FastAPI reads it, nobody changes it
    start: From = None,
    to: To = None,
    measures: Measures = None,
    order: Order = None,
    limit: Limit = 1000,
    cursor: CursorText = None,
    publication: Publication = None,
    as_of: AsOf = None,
    layer: LayerName = None,
    min_position: MinPosition = None,
    max_age: MaxAge = None,
    escaped: Escaped = False,
) -> Response:
    """Rows of a view, ordered by window start, then keys, NULL last, unless another order is asked for.

    All pages of a cursor come from one snapshot, whatever is counted meanwhile; 410 once it is not held any more.
    """
    most = server_of(request).settings.max_rows
    if limit > most:
        raise Problem(400, f"limit={limit} is too large; the maximum is {most}")
    asked = Asked(
        view,
        key_texts(request, null),
        start,
        to,
        layer,
        publication,
        as_of,
        order,
        measures,
        min_position,
        max_age,
        cursor,
    )
    return await responded(request, await find(request, asked), limit=limit, escaped=escaped)


@router.get("/views/{view}/row", openapi_extra=_READ, response_model=OneRow, responses=documented(410))
@gate.at_once(one_row.row)
async def row(
    request: Request,
    view: View,
    *,
    null: Null = [],  # noqa: B006 - likewise
    window: Window = None,
    measures: Measures = None,
    publication: Publication = None,
    as_of: AsOf = None,
    layer: LayerName = None,
    min_position: MinPosition = None,
    max_age: MaxAge = None,
    escaped: Escaped = False,
) -> Response:
    """The row of one key and window; `row` is null, or there is none in other formats, if certainly nothing was counted."""
    asked = Asked(
        view,
        key_texts(request, null),
        layer=layer,
        publication=publication,
        as_of=as_of,
        measures=measures,
        min_position=min_position,
        max_age=max_age,
        window=window,
        one=True,
    )
    found = await find(request, asked)
    if found.answer.table.num_rows > 1:
        raise Problem(400, f"{found.answer.table.num_rows} windows of view {view!r} start at this time; request its rows")
    return await responded(request, found, limit=None, escaped=escaped, single=True)
