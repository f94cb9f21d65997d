"""The events behind a row, and the causes of rows' changes."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict

from tandem.serving.access.rights import Principal
from tandem.serving.http.models.openapi import problems
from tandem.serving.http.models.why import WhyChangedDocument, WhyDocument
from tandem.serving.http.protocol.formats import provenance
from tandem.serving.http.protocol.parameters import KEY_VALUES, Null, Publication, Window, key_texts
from tandem.serving.http.protocol.parameters import View as ViewName
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.parse import parse_measures, restricted, row_question
from tandem.serving.http.queries.permitted import view_for
from tandem.serving.http.requests import audit_log
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import Server, principal_of, server_of
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.selection import ALWAYS, Selection, parse_keys, parse_window, select
from tandem.serving.why.changed import RowChanges
from tandem.serving.why.document import changes_to_json, to_json
from tandem.serving.why.moments import Moments
from tandem.serving.why.part_log import WorkBounds
from tandem.serving.why.why import WhyReader
from tandem.views.view import View

BOUNDS: Final = WorkBounds(events=20_000, bytes=256 << 20, records=200_000)
"""The work of one request; `tandem why` has no bounds but that of memory."""

router = APIRouter(route_class=Gated, tags=["rows"])


class WhyParameters(BaseModel):
    """The parameters of a request for what is behind a row."""

    model_config = ConfigDict(extra="allow", frozen=True)  # parameters `key.NAME`; the gate refuses all other unknown ones

    null: Null = []
    window: Window = None
    measures: Annotated[
        str | None,
        Query(description="Show only these measures, separated by commas, and the events that they read. Default: all."),
    ] = None
    listed: Annotated[
        int | None, Query(ge=0, le=1000, description="List the first N events. Default: the first and last three.")
    ] = None
    publication: Publication = None

    @property
    def keys(self) -> list[str]:
        """The keys as `NAME=VALUE`, `NAME` alone for NULL."""
        return key_texts((self.model_extra or {}).items(), self.null)


class WhyChangedParameters(BaseModel):
    """The parameters of a request for the causes of changes."""

    model_config = ConfigDict(extra="allow", frozen=True)  # likewise

    null: Null = []
    window: Annotated[str | None, Query(description="Only the window that starts then. Default: all windows.")] = None
    before: Annotated[
        str,
        Query(
            description="The earlier moment: a publication's number, a time (the publication that was live then), a position "
            "or a receipt as JSON.",
            examples=["2", "2026-11-01T08:00Z"],
            max_length=8000,
        ),
    ]
    after: Annotated[str, Query(description="The later moment, likewise. Default: `now`.", max_length=8000)] = "now"

    @property
    def keys(self) -> list[str]:
        """The keys as `NAME=VALUE`, `NAME` alone for NULL."""
        return key_texts((self.model_extra or {}).items(), self.null)


@router.get(
    "/views/{view}/why",
    openapi_extra={"x-verb": "read", **KEY_VALUES},
    response_model=WhyDocument,
    responses=problems(404, 410),
)
async def why(request: Request, view: ViewName, parameters: Annotated[WhyParameters, Query()]) -> Mapping[str, Any]:
    """The events behind one row, and the row computed again from them, at the newest committed position.

    The work is bounded: 503 for a row of too many events. Records in quarantine are listed for the right `admin` alone. A token
    that is restricted to rows sees neither rejects nor positions of all rows.
    """
    server, principal = server_of(request), principal_of(request)
    document = await server.work(principal, lambda: _explain(server, principal, view, parameters))
    audit_log.of(request).rows = sum(len(source["listed"]) for source in document["sources"].values())
    return document


@router.get(
    "/views/{view}/why-changed",
    openapi_extra={"x-verb": "read", **KEY_VALUES},
    response_model=WhyChangedDocument,
    responses=problems(404),
)
async def differences(
    request: Request, view: ViewName, parameters: Annotated[WhyChangedParameters, Query()]
) -> Mapping[str, Any]:
    """What made rows change between two moments: for measures that subtract, parts by cause that add up to the difference.

    The work is bounded: 503 for rows of too many events. A token that is restricted to rows may name publications and times
    alone, because positions are of all rows.
    """
    server, principal = server_of(request), principal_of(request)
    document = await server.work(principal, lambda: _split(server, principal, view, parameters))
    audit_log.of(request).rows = len(document["rows"])
    return document


def _split(server: Server, principal: Principal, name: str, parameters: WhyChangedParameters) -> dict[str, Any]:
    moments = (parameters.before, parameters.after)
    if principal.rights.rows and any(text.startswith("{") for text in moments):
        raise Problem(403, "a token that is restricted to rows may not name a position or a receipt, which are of all rows")
    view_for(Reader(server.tables).project().every_view, name, principal)

    def chosen(of: View) -> Selection:
        between = ALWAYS if parameters.window is None else parse_window(of, parameters.window)
        return select(of, restricted(of, principal, parse_keys(of, parameters.keys)), between)

    finder = Moments(server.tables, name, chosen, files=False)
    first, second = map(finder.find, moments)
    document = changes_to_json(RowChanges(server.tables, server.tail, BOUNDS).between(first, second, chosen(second.view)))
    return document | {"erased": None} if principal.rights.rows else document


def _explain(server: Server, principal: Principal, name: str, parameters: WhyParameters) -> dict[str, Any]:
    reader = Reader(server.tables, parameters.publication)
    view = view_for(reader.project().every_view, name, principal)
    selection = row_question(view, principal, parameters.keys, parameters.window).selection
    measures = () if parameters.measures is None else parse_measures(view, parameters.measures)
    explained = WhyReader(reader, server.tail, BOUNDS).why(name, selection.keys, (selection.start, selection.end))
    document = to_json(explained, now=server.now(), listed=parameters.listed, measures=measures)
    bound = bool(principal.rights.rows)
    document["provenance"] = provenance(explained.provenance, bound=bound)
    for source in document["sources"].values():
        if bound or "admin" not in principal.rights.verbs or principal.rights.restricted:
            source["near_misses"]["first"] = []
        if bound:
            source["rejected"] = {"number": None, "first": []}
            source["near_misses"] = {"rejects": None, "number": None, "first": []}
    if bound:
        document["erased"] = None
        if document["final_since"] is not None:
            document["final_since"]["positions"] = None
    return document
