"""Quarantined records: why they are not events, what they contain, and what the project folder's decoder makes of them."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Releases
from tandem.serving.http.models.openapi import problems
from tandem.serving.http.models.operations import QuarantinedDocument, QuarantineDocument, RetriedDocument, RetryDocument
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import principal_of, server_of
from tandem.serving.read.outcome import ReadFailed
from tandem.serving.status.quarantine import After, rejects
from tandem.serving.status.sources import archived
from tandem.views.errors import listed
from tandem.views.instant import utc_text

_ADMIN: Final[dict[str, Any]] = {"x-verb": "admin"}

Source = Annotated[str, Path(description="The source's name.", examples=["requests"], max_length=200)]
Reason = Annotated[str | None, Query(description="Only records with this reason.", max_length=200)]
Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of records.")]
Before = Annotated[str | None, Query(description="Older records: `next` of the previous page.", max_length=400)]

router = APIRouter(route_class=Gated, tags=["quarantine"])


@router.get("/quarantine/{source}", openapi_extra=_ADMIN, responses=problems(404))
async def quarantine(
    request: Request, source: Source, reason: Reason = None, limit: Limit = 100, before: Before = None
) -> QuarantineDocument:
    """List the records of a source that are not events, the newest first, as `tandem archive` recorded them."""
    server, after = server_of(request), None if before is None else After.parse(before)
    return await server.work(principal_of(request), lambda: _page(server.tables, source, reason, limit, after))


@router.post("/quarantine/{source}/retry", openapi_extra=_ADMIN, responses=problems(404, 409, 413))
async def retry(request: Request, source: Source, body: RetryDocument) -> RetriedDocument:
    """Decode records of the quarantine again, with the definitions in the project's folder, and report the outcome.

    It runs in its own process and writes nothing: if the decoder changed, `apply` decodes all records again.
    """
    server, principal = server_of(request), principal_of(request)
    await server.work(principal, lambda: _decoder(server.tables, source))
    document = await server.redecode.run([f"--source={source}", *body.words()], by=principal)
    return RetriedDocument.model_validate(document)


def _decoder(tables: Tables, source: str) -> str:
    """The decoder's fingerprint of a published source. Raises Problem 404, ReadFailed."""
    live = Publications(tables).latest()
    if live is None:
        raise ReadFailed("nothing is published yet")
    sources = Releases(tables).load(live.release).sources
    if source not in sources:
        raise Problem(404, f"no source {source!r}; sources: {listed(source, sources)}", code="source-unknown")
    return sources[source]


def _page(tables: Tables, source: str, reason: str | None, limit: int, after: After | None) -> QuarantineDocument:
    decoder = _decoder(tables, source)
    found = rejects(tables, source, decoder, reason=reason, after=after, limit=limit + 1)
    page, names = found.slice(0, limit), ArchiveLedger(tables, source).topic_names()
    return QuarantineDocument(
        source=source,
        counts=dict(archived(tables, source, decoder).counts.quarantined),
        rows=[_row(reject, names) for reject in page.to_pylist()],
        next=str(After.of(page)) if found.num_rows > limit else None,
    )


def _row(reject: dict[str, Any], names: dict[str, str]) -> QuarantinedDocument:
    return QuarantinedDocument(
        topic=names.get(reject["topic_id"], reject["topic_id"]),
        topic_id=reject["topic_id"],
        partition=reject["partition"],
        offset=reject["offset"],
        index=reject["index"],
        timestamp=utc_text(reject["timestamp"]),
        reason=reject["reason"],
        detail=reject["detail"],
        value=(reject["first_bytes"] or b"").decode("utf-8", "backslashreplace"),
    )
