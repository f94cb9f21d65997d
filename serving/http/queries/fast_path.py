"""One row of the live publication, from memory, as JSON: answered in the event loop's own thread.

Looking it up takes microseconds. All other questions take a turn in a lane; both give the same bytes and the same entity tag.
"""

from typing import Final

import msgspec
from fastapi import Response

from serving.http.answers.code_lane import needs_code
from serving.http.protocol.media_types import JSON
from serving.http.protocol.parameters import KEYS, key_texts
from serving.http.protocol.strict_json import StrictRequest
from serving.http.queries.parse import columns, one_row, parse_measures
from serving.http.queries.respond import entity_of, headers_with, unchanged
from serving.http.requests import audit_log
from serving.http.requests.server import principal_of, server_of
from views.exactness import MARK
from views.instant import microseconds
from views.view import bind

_TAKEN: Final = frozenset({"null", "window", "measures"})
_ANY: Final = frozenset({"*/*", JSON})


def row(request: StrictRequest) -> Response | None:
    """The row of one key and window; None if the request has to take the usual path. Raises BadSelection, Problem, ReadFailed."""
    given, accept = request.query_params, request.header(b"accept")
    if (accept is not None and accept not in _ANY) or not all(named in _TAKEN or named.startswith(KEYS) for named in given):
        return None
    server, principal = server_of(request), principal_of(request)
    name = request.path_params["view"]
    lane = server.lane
    lane.snapshot()
    if needs_code(lane.cache.store.pinned().project, name):
        if (code_lane := server.code_lane.if_open) is None:
            return None
        lane = code_lane
        lane.snapshot()
    cache = lane.cache
    pinned = cache.store.pinned()
    memory, view = pinned.views.get(name), pinned.project.views.get(name)
    if memory is None or view is None or principal.rights.bound(view) is None or bind(view).placement.in_order:
        return None
    one = one_row(view, principal, key_texts(given.multi_items(), given.getlist("null")), given.get("window"))
    measures = parse_measures(view, given.get("measures"))
    cache.store.use(name)
    found = memory.answers.row(one.key, None if one.start is None else microseconds(one.start))
    bound, common = bool(principal.rights.rows), cache.common(pinned, view, memory)
    entity = entity_of(common.tag(one.digest), measures, bound=bound, given=0, ends=int(found is not None), media=JSON)
    if (same := unchanged(request.method, request.header(b"if-none-match"), entity)) is not None:
        return same
    if found is not None and len(measures) < len(view.measures):
        found = {column: found[column] for column in (*columns(view, measures), MARK) if column in found}
    touched = found is not None and MARK in found
    audit_log.of(request).rows = int(found is not None)
    body = msgspec.json.encode({"view": name, "row": found, "provenance": common.told(bound=bound, touched=touched)})
    return Response(body, 200, headers_with(entity), JSON)
