"""Alerts: the rows for which they are raised, and their newest edges."""

from collections.abc import Callable
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request

from tandem.ledger.delta.addresses import Tables
from tandem.serving.http.models.alerts import AlertEdgeDocument, AlertsDocument, AlertStandsDocument
from tandem.serving.http.models.openapi import problems
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.permitted import may_see
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import principal_of, server_of
from tandem.serving.sinks.alerts import book
from tandem.serving.sinks.alerts.book import AlertDocument, active_edges
from tandem.serving.sinks.alerts.episodes import Edge
from tandem.serving.sinks.alerts.webhook import edge_document

router = APIRouter(route_class=Gated, tags=["alerts"])

Limit = Annotated[int, Query(ge=1, le=book.RECENT, description="Maximum number of newest edges.")]
_SHOWN: Final = 50


@router.get("/alerts", openapi_extra={"x-verb": "read"}, responses=problems())
async def alerts(request: Request, limit: Limit = _SHOWN) -> AlertsDocument:
    """List the alerts that have run, the rows for which each is raised, and the newest edges of all.

    An edge is there if the token may read its view. Not for tokens that are restricted to rows: an edge has a whole row.
    """
    server, principal = server_of(request), principal_of(request)
    if principal.rights.rows:
        raise Problem(403, "a token that is restricted to rows may not read alerts, whose edges have whole rows")
    server.lane.snapshot()
    views = await server.lane.ask(lambda cache: cache.views(), by=str(principal))
    documents = await server.work(principal, lambda: _documents(server.tables))
    restricted = principal.rights.restricted

    def visible(edge: Edge) -> bool:
        return may_see(views, edge.view, principal)

    recent = [
        each.edge for document in documents.values() for each in document.edges if not each.edge.quiet and visible(each.edge)
    ]
    recent.sort(key=lambda edge: edge.at, reverse=True)
    return AlertsDocument(
        alerts=[
            _stands(name, document, visible, restricted=restricted)
            for name, document in documents.items()
            if not restricted or any(visible(each.edge) for each in document.edges)
        ],
        recent=[_edge(edge) for edge in recent[:limit]],
    )


def _documents(tables: Tables) -> dict[str, AlertDocument]:
    """What is stored of each alert that has run, by name."""
    stored = ((name, book.load_document(tables, name)) for name in book.names(tables))
    return {name: document for name, document in stored if document is not None}


def _stands(name: str, document: AlertDocument, visible: Callable[[Edge], bool], *, restricted: bool) -> AlertStandsDocument:
    return AlertStandsDocument(
        alert=name,
        raised=[_edge(edge) for edge in active_edges(document) if visible(edge)],
        unsent=document.lacking,
        faults={} if restricted else document.faults,
    )


def _edge(edge: Edge) -> AlertEdgeDocument:
    return AlertEdgeDocument.model_validate(edge_document(edge))
