"""Sources: what their records are, and the events that clients send to them."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Header, Query, Request

from tandem.infra.kafka import Appended, NoBroker, NoTopic, Outcome, Topic
from tandem.ledger.log.positions import Position
from tandem.ledger.log.registry_client import RegistryAway
from tandem.serving.http.models.openapi import problems
from tandem.serving.http.models.status import AppendedDocument, SentDocument, SourceDescribedDocument, SourcesDocument
from tandem.serving.http.protocol.parameters import Source
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries import describe
from tandem.serving.http.queries.permitted import known, open_to, source_for
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import Server, principal_of, server_of
from tandem.serving.ingest import new_records
from tandem.serving.ingest.content_encoding import (
    ENCODINGS,
    BeyondBound,
    NotUnpacked,
    UnknownEncoding,
    encoding_of,
    unpack,
)
from tandem.serving.ingest.gateway import NoRoom, Room
from tandem.serving.ingest.new_records import MEDIA, IngestTarget, values

if TYPE_CHECKING:
    from tandem.views.source.offset_ranges import Partition

router = APIRouter(route_class=Gated, tags=["sources"])


@router.get("/sources", openapi_extra={"x-verb": "known"}, responses=problems())
async def sources(request: Request) -> SourcesDocument:
    """List the sources whose views the token may read, or to which it may send events, with what their records are."""
    principal = principal_of(request)
    project = server_of(request).lane.cache.store.pinned().project
    found = known(project, principal)
    return SourcesDocument(sources=[describe.source(project, source, principal) for source in found.values()])


@router.get("/sources/{source}", openapi_extra={"x-verb": "known"}, responses=problems(404))
async def source(request: Request, source: Source) -> SourceDescribedDocument:
    """Show a source: its topics, its decoder, the fields of its events with kinds, units and docs, how duplicates are found."""
    principal = principal_of(request)
    project = server_of(request).lane.cache.store.pinned().project
    return describe.source(project, source_for(project, source, known(project, principal)), principal)


_EVENT: Final = '{"page":"/a","moment":"2026-11-01T12:00:00Z","bytes":512,"price":"0.10"}'
_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "description": "One record byte for byte, or one per line. The source's decoder defines the format of a record. "
        "With `Content-Encoding: gzip` or `zstd` the body is compressed; the limits hold for the unpacked body.",
        "content": {
            "application/json": {"schema": {}, "example": msgspec.json.decode(_EVENT)},
            "application/x-ndjson": {"schema": {"type": "string"}, "example": f"{_EVENT}\n{_EVENT}\n"},
            "text/plain": {"schema": {"type": "string"}, "example": "one record per line\n"},
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


@router.post(
    "/sources/{source}/events",
    openapi_extra={"x-verb": "ingest", **_BODY},
    responses=problems(404, 413, 415, 422),
)
async def events(
    request: Request,
    source: Source,
    *,
    topic: Annotated[str | None, Query(description="The topic, if the source has several.", max_length=249)] = None,
    kind: Annotated[str | None, Query(description="The kind, if a header selects the source's records.", max_length=200)] = None,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Part of the records' identity, as KEY/0, KEY/1, ...: a request that is repeated with its key counts "
            "once. Refused for a source whose identity does not contain it.",
            examples=["0b6d3f5e-8f5c-4a55-9d0c-2f1a3c9f7c11"],
        ),
    ] = None,
) -> SentDocument:
    """Write events to a source's topic: all of them or, if one does not decode, none.

    Answers once all replicas have acknowledged every record, with the position of each. If only some were written, 503 gives the
    outcome of each record: a record whose acknowledgement is lost may be in the log or not, as after 504.
    """
    server, who = server_of(request), str(principal_of(request))
    project = server.lane.cache.store.pinned().project
    to = source_for(project, source, open_to(project, principal_of(request)))
    media, encoding = _media(request), _encoding(request)
    most = server.settings.body_kb << 10
    try:
        target = new_records.target(to, topic=topic, kind=kind, idempotency_key=idempotency_key)
    except new_records.CannotMean as error:
        raise Problem(400, str(error)) from error
    try:
        with server.gateway.room(who, _most_bytes(request, most, encoding)) as room:
            body = await request.body()
            if encoding != "identity":  # others wait for no turn in the thread that decodes
                packed = body
                body = await server.gateway.work(room.by, lambda: unpack(packed, encoding, most))
            return await _write(server, room, target, body, media)
    except NotUnpacked as error:
        server.metrics.ingest.refused("undecodable")
        raise Problem(400, str(error)) from error
    except BeyondBound as error:
        server.metrics.ingest.refused("too_large")
        raise Problem(413, str(error)) from error
    except NoRoom as full:
        server.metrics.ingest.refused("no_room")
        said = f"the limit of this token's unacknowledged events is reached; nothing is written; try again in {full.again} s"
        raise Problem(429, said, headers={"Retry-After": str(full.again)}) from full


async def _write(server: Server, room: Room, target: IngestTarget, body: bytes, media: str) -> SentDocument:
    at = server.now()
    try:
        given = await server.gateway.work(room.by, lambda: values(body, media))
        _refuse_number(len(given), server.settings.max_rows)
        target = await server.gateway.ready(room.by, target, given, at=at)
        records = await server.gateway.work(room.by, lambda: new_records.records_of(target, given, at=at))
        topic = await server.gateway.topic(target.topic)
        outcomes = await server.gateway.append(room, topic.name, records)
    except new_records.NoEvents as error:
        server.metrics.ingest.refused("undecodable")
        faults = [{"record": fault.record, "reason": fault.reason, "detail": fault.detail} for fault in error.faults]
        raise Problem(422, str(error), more={"records": faults}) from error
    except new_records.TooLarge as error:
        server.metrics.ingest.refused("too_large")
        raise Problem(413, str(error)) from error
    except (NoBroker, NoTopic) as error:
        server.metrics.ingest.refused("no_broker")
        raise Problem(503, f"{error}; nothing is written") from error
    except RegistryAway as error:
        server.metrics.ingest.refused("no_registry")
        raise Problem(503, f"{error}; nothing is written") from error
    places = [_place(topic, one) for one in outcomes if isinstance(one, Appended)]
    if len(places) < len(outcomes):
        raise _partly(target, topic, outcomes)
    return SentDocument(
        source=target.source.name,
        topic=topic.name,
        records=[AppendedDocument(**place) for place in places],
        min_position=_after(topic, outcomes),
    )


def _media(request: Request) -> str:
    """The media type of the body. Raises Problem 415."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media not in MEDIA:
        raise Problem(415, f"unsupported Content-Type {media!r}; send {', '.join(MEDIA[:-1])} or {MEDIA[-1]}")
    return media


def _encoding(request: Request) -> str:
    """The content encoding of the body. Raises Problem 415, with the encodings that are supported."""
    try:
        return encoding_of(", ".join(request.headers.getlist("content-encoding")))
    except UnknownEncoding as error:
        raise Problem(415, str(error), headers={"Accept-Encoding": ", ".join(ENCODINGS)}) from error


def _most_bytes(request: Request, most: int, encoding: str) -> int:
    """The announced number of bytes of the body, at most the limit; the limit, if only unpacking shows the number."""
    length = request.headers.get("content-length", "")
    return min(int(length), most) if length.isdecimal() and encoding == "identity" else most


def _refuse_number(records: int, most: int) -> None:
    if not records:
        raise Problem(400, "the body has no record; nothing is written")
    if records > most:
        raise Problem(400, f"the request has {records} records; the limit is {most}; nothing is written")


def _place(topic: Topic, outcome: Appended) -> dict[str, Any]:
    return {"topic_id": topic.id, "partition": outcome.partition, "offset": outcome.offset}


def _after(topic: Topic, outcomes: Sequence[Outcome]) -> str | None:
    """The least position that counts all written records, as `min_position` takes it; None if an offset is unknown."""
    ends: dict[Partition, int] = {}
    for outcome in outcomes:
        if isinstance(outcome, Appended):
            if outcome.offset is None:
                return None
            place = (topic.id, outcome.partition)
            ends[place] = max(outcome.offset + 1, ends.get(place, 0))
    return msgspec.json.encode(Position.of(ends).to_json()).decode() if ends else None


def _partly(target: IngestTarget, topic: Topic, outcomes: Sequence[Outcome]) -> Problem:
    """The outcome of each record, if not all are acknowledged."""
    told: list[dict[str, Any]] = []
    for number, outcome in enumerate(outcomes):
        if isinstance(outcome, Appended):
            told.append({"record": number, "outcome": "written", **_place(topic, outcome)})
        else:
            told.append({"record": number, "outcome": "not_written" if outcome.sure else "unknown", "reason": outcome.why})
    counts = Counter(one["outcome"] for one in told)
    why = next(outcome.why for outcome in outcomes if not isinstance(outcome, Appended))
    advice = (
        "send the same request again: written records count once"
        if target.knows_copies
        else f"records that are sent again count twice, because source {target.source.name!r} has no identity that finds "
        "duplicates"
    )
    detail = (
        f"of {len(told)} records {counts['written']} are written, {counts['not_written']} are not written, and the outcome of "
        f"{counts['unknown']} is unknown: Kafka says {why!r}; {advice}"
    )
    return Problem(503, detail, more={"records": told, "min_position": _after(topic, outcomes)})
