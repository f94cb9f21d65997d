"""The caller's rights, for a program that shows only what its token may do."""

from fastapi import APIRouter, Request

from tandem.serving.http.models.me import MeDocument
from tandem.serving.http.models.openapi import problems
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import principal_of, server_of
from tandem.views.instant import utc_text

router = APIRouter(route_class=Gated, tags=["health"])


@router.get("/me", openapi_extra={"x-verb": "known"}, responses=problems())
async def me(request: Request) -> MeDocument:
    """Show what the token may do, and until when."""
    principal = principal_of(request)
    rights = principal.rights
    return MeDocument(
        name=principal.name,
        verbs=sorted(rights.verbs),
        views=None if rights.views is None else sorted(rights.views),
        rows=list(rights.rows),
        expires=utc_text(principal.expires),
        max_rows=server_of(request).settings.max_rows,
    )
