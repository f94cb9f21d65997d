"""Comparisons of served answers with what the batch then computed."""

from typing import Annotated

from fastapi import APIRouter, Query, Request

from tandem.ledger.publish.audits import Audits
from tandem.serving.http.models.openapi import problems
from tandem.serving.http.models.operations import AuditedDocument, AuditsDocument
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.permitted_views import may_see, readable
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import principal_of, server_of
from tandem.serving.status.audits import document_of
from tandem.views.errors import listed

Of = Annotated[str | None, Query(alias="view", description="Only audits of this view.", max_length=200)]
Limit = Annotated[int, Query(ge=1, le=2000, description="Maximum number of audits.")]

router = APIRouter(route_class=Gated, tags=["releases"])


@router.get("/audits", openapi_extra={"x-verb": "read"}, responses=problems(404))
async def audits(request: Request, view: Of = None, limit: Limit = 500) -> AuditsDocument:
    """List what each recompute found about the answers served until then, the newest first.

    One per run, view and measure: how many answers differ, by how much, why, and examples. Not for tokens that are bound to
    rows, because its figures are of all rows.
    """
    server, principal = server_of(request), principal_of(request)
    if principal.rights.rows:
        raise Problem(403, "a token that is restricted to rows may not read audits, which compare all rows")
    server.lane.snapshot()
    views = await server.lane.ask(lambda cache: cache.views(), by=str(principal))
    found = await server.work(principal, lambda: Audits(server.tables).history(view=view))
    seen = [audit for audit in reversed(found) if may_see(views, audit.view, principal)][:limit]
    known = readable(views, principal)
    if view is not None and view not in known and not seen:
        raise Problem(404, f"no view {view!r}; views: {listed(view, known)}", code="view-unknown")
    return AuditsDocument(audits=[AuditedDocument.model_validate(document_of(audit)) for audit in seen])
