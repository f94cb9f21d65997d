"""One row, answered at once: of what is live, from memory, as JSON.

To look it up takes microseconds, so the server's own thread does it. Whatever is asked otherwise goes the way of all questions;
both give the same bytes under the same tag.
"""

from typing import Final

import msgspec
from fastapi import Request, Response

from serving.http.answers.code_lane import needs_code
from serving.http.answers.question import columns, parse_measures
from serving.http.protocol.media_types import JSON
from serving.http.queries.response import Asked, entity_of, headers_with, key_texts, question_of, unchanged
from serving.http.requests import audit_log
from serving.http.requests.gate import KEYS
from serving.http.requests.server import principal_of, server_of
from views.exactness import MARK
from views.view import bind
from views.windows.placement import since_1970

_TAKEN: Final = frozenset({"null", "window", "measures"})
_ANY: Final = frozenset({"*/*", JSON})


def row(request: Request) -> Response | None:
    """The row of one key and window; None where it is not answered in this way. Raises BadSelection, ReadFailed."""
    given = request.query_params
    if request.headers.get("accept", JSON) not in _ANY or not all(one in _TAKEN or one.startswith(KEYS) for one in given):
        return None
    server, principal = server_of(request), principal_of(request)
    name = request.path_params["view"]
    lane = server.asking
    lane.snapshot()
    if needs_code(lane.answers.store.pinned().project, name):
        if (coded := server.coded.at_work) is None:
            return None
        lane = coded
        lane.snapshot()
    answers = lane.answers
    pinned = answers.store.pinned()
    memory, view = pinned.views.get(name), pinned.project.views.get(name)
    if memory is None or view is None or principal.rights.bound(view) is None or bind(view).placement.in_order:
        return None
    keys = key_texts(request, given.getlist("null"))
    asked = Asked(name, keys, measures=given.get("measures"), window=given.get("window"), one=True)
    question, measures = question_of(view, principal, asked, None), parse_measures(view, asked.measures)
    answers.store.use(name)
    start = question.between[0]
    key = tuple(question.keys[one].as_py() for one in view.keys)
    found = memory.answers.row(key, None if start is None else since_1970(start))
    bound, common = bool(principal.rights.rows), answers.common(pinned, view, memory)
    entity = entity_of(common.tag(question), measures, bound=bound, given=0, ends=int(found is not None), media=JSON)
    if (same := unchanged(request, entity)) is not None:
        return same
    if found is not None and len(measures) < len(view.measures):
        found = {one: found[one] for one in (*columns(view, measures), MARK) if one in found}
    touched = found is not None and MARK in found
    audit_log.of(request).rows = int(found is not None)
    body = msgspec.json.encode({"view": name, "row": found, "provenance": common.told(bound=bound, touched=touched)})
    return Response(body, 200, headers_with(entity), JSON)
