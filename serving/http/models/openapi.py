"""Responses in the OpenAPI document: every status of a route, with its formats."""

from typing import Any, Final

from pydantic import BaseModel, Field

from tandem.serving.http.protocol import problem
from tandem.serving.http.protocol.media_types import ARROW, CSV, NDJSON
from tandem.serving.status.parts import HEADER


class ProblemDocument(BaseModel):
    """A problem document (RFC 9457)."""

    title: str = Field(examples=["Bad Request"])
    status: int = Field(examples=[400])
    detail: str = Field(examples=["unknown parameter 'ky.page'; parameters: key.NAME, measures, order, limit"])
    code: str = Field(
        examples=["request-invalid"],
        description="The kind of problem, for programs: `detail` may change, codes do not (docs/errors.md).",
    )
    run: str | None = Field(None, description="With 409: the active run.")
    records: list[dict[str, Any]] | None = Field(
        None,
        description="For sent events. With 422: the invalid records, with reason and detail, at most a hundred. With 503: the "
        "outcome of each record, if some may have been written.",
    )
    min_position: str | None = Field(None, description="For sent events of which some were written: as in the answer.")


_WHY: Final = {
    400: "The request is invalid; `detail` explains what is expected.",
    401: "The token is missing, unknown, expired or revoked.",
    403: "The token lacks the right for this request.",
    404: "The view, source or run does not exist, or the token may not read it or send to it.",
    406: "None of the formats in `Accept` is supported.",
    409: "Another run is active; `run` and `Location` name it.",
    410: "The snapshot of the cursor has expired, or the publication is not retained.",
    413: "The body is too large.",
    415: "Unsupported media type or encoding.",
    422: "Some records are not events of the source; nothing is written.",
    414: "The URL is too long.",
    429: "Too many requests, streams, unread responses, events or invalid tokens; `Retry-After` is the number of seconds to "
    "wait.",
    431: "The headers are too large.",
    500: "An internal error of the server.",
    503: "The server cannot answer, with the reason: nothing is published, a range is missing, or a table cannot be read.",
    504: "The requested freshness was not reached in time, or the request took too long.",
}
_ALWAYS: Final = (400, 414, 431, 500)
_KNOWN: Final = (401, 403, 429, 503, 504)

_PROVENANCE: Final = {
    "Tandem-Provenance": {
        "description": "The provenance as JSON, for formats that contain only rows.",
        "schema": {"type": "string"},
    },
    "Tandem-Total": {"description": "The number of rows of all pages, for the same formats.", "schema": {"type": "string"}},
    "Tandem-Next": {"description": "The cursor of the next page, if any, for the same formats.", "schema": {"type": "string"}},
    "ETag": {"description": "Changes with the snapshot, the query and the format.", "schema": {"type": "string"}},
}


_PARTS: Final = {
    "description": "The state of each part of the installation, and since when: a dictionary (RFC 9651).",
    "schema": {"type": "string"},
    "example": 'broker=running, speed=stuck;since="2026-11-01T08:00:00Z"',
}
"""The header of every response."""


def problems(*statuses: int, known: bool = True) -> dict[int | str, dict[str, Any]]:
    """The problems of a route: those of every route, those of routes behind a token unless `known` is false, and these."""
    every = sorted({*_ALWAYS, *(_KNOWN if known else ()), *statuses})
    return {
        status: {
            "description": _WHY[status],
            "content": {
                problem.MEDIA: {
                    "schema": {"$ref": "#/components/schemas/Problem"},
                    "example": problem.document(status, _WHY[status]),
                }
            },
        }
        for status in every
    }


def rows(*statuses: int, conditional: bool = True) -> dict[int | str, dict[str, Any]]:
    """The responses of a route that returns rows."""
    text: dict[str, Any] = {"schema": {"type": "string"}}
    found: dict[int | str, dict[str, Any]] = {
        200: {
            "headers": _PROVENANCE,
            "content": {
                NDJSON: {**text, "example": '{"page":"/a","hits":3}\n'},
                CSV: {**text, "example": '"page","hits"\r\n"/a",3\r\n'},
                ARROW: {"schema": {"type": "string", "contentMediaType": ARROW}},
            },
        },
        **problems(404, 406, *statuses),
    }
    return {**found, 304: {"description": "The client already has this answer."}} if conditional else found


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """The framework's document, without responses that no route has, and with the authentication scheme."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["ProblemDocument"] = ProblemDocument.model_json_schema()
    document["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "A token of `tandem token create`, or the provider's."}
    }
    for path in document["paths"].values():
        for operation in path.values():
            for response in operation["responses"].values():
                response.setdefault("headers", {})[HEADER] = _PARTS
            if problem.MEDIA not in operation["responses"].get("422", {}).get("content", {}):
                operation["responses"].pop("422", None)
    return document
