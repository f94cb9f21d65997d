"""The publications: what was live, since when and why; and what the batch computed in comparison with what was served."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from tandem.ledger.publish.audits import Audits
from tandem.serving.access.rights import Principal
from tandem.serving.http.models.openapi import problems
from tandem.serving.http.models.operations import AuditedDocument, AuditsDocument, HistoryDocument, PublishedDocument
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.permitted import may_see, readable
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import principal_of, server_of
from tandem.serving.status.releases import document_of, documents
from tandem.views.errors import listed
from tandem.views.source.united_source import all_sources
from tandem.views.view import View

Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of publications.")]

router = APIRouter(route_class=Gated, tags=["releases"])


@router.get("/history", openapi_extra={"x-verb": "read"}, responses=problems())
async def history(request: Request, limit: Limit = 100) -> HistoryDocument:
    """List the publications, the newest first: who, when, why, release, cuts, batch versions, revision, and what a promotion
    changed.

    A token that is restricted to views gets only the views that it may read, and their sources; a token restricted to rows
    gets no cuts, gaps and changes, which are of all rows.
    """
    server, principal = server_of(request), principal_of(request)
    server.lane.snapshot()
    views = await server.lane.ask(lambda cache: cache.views(), by=str(principal))
    found, total = await server.work(principal, lambda: documents(server.tables, limit))
    sources = {*all_sources(view.source for view in readable(views, principal).values())}
    shown = [_restricted(one, views, sources, principal) if principal.rights.restricted else one for one in found]
    return HistoryDocument(publications=[PublishedDocument.model_validate(one) for one in shown], total=total)


def _restricted(
    document: Mapping[str, Any], views: Mapping[str, View], sources: Collection[str], principal: Principal
) -> dict[str, Any]:
    if principal.rights.rows:
        names = [name for name in document["views"] if may_see(views, name, principal)]
        return {**document, "cuts": None, "views": {name: document["views"][name] for name in names}, "gaps": None, "diff": None}
    diff = document["diff"]
    return {
        **document,
        "cuts": {name: cut for name, cut in document["cuts"].items() if name in sources},
        "views": {name: parts for name, parts in document["views"].items() if may_see(views, name, principal)},
        "gaps": [name for name in document["gaps"] if name.rpartition("-gap-")[0] in sources],
        "diff": None if diff is None else {name: one for name, one in diff.items() if may_see(views, name, principal)},
    }


Of = Annotated[str | None, Query(alias="view", description="Only audits of this view.", max_length=200)]
AuditLimit = Annotated[int, Query(ge=1, le=2000, description="Maximum number of audits.")]


@router.get("/audits", openapi_extra={"x-verb": "read"}, responses=problems(404))
async def audits(request: Request, view: Of = None, limit: AuditLimit = 500) -> AuditsDocument:
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
