"""Rows of many keys at once."""

from dataclasses import replace
from hashlib import sha256

import numpy as np
from fastapi import APIRouter, Request, Response

from tandem.serving.http.answers.cache import AnswerCache
from tandem.serving.http.answers.key_lookup import matched, visible, wanted
from tandem.serving.http.models.openapi import rows as documented
from tandem.serving.http.models.rows import LookedDocument, LookupDocument
from tandem.serving.http.protocol.parameters import Escaped, MinPosition, View
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.ask import Found
from tandem.serving.http.queries.parse import lookup_question, parse_measures
from tandem.serving.http.queries.permitted_views import view_for
from tandem.serving.http.queries.respond import respond
from tandem.serving.http.requests.freshness import ask_fresh
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import principal_of, server_of
from tandem.serving.read.touched_rows import any_touched, split

router = APIRouter(route_class=Gated, tags=["rows"])


@router.post(
    "/views/{view}/lookup",
    openapi_extra={"x-verb": "read"},
    response_model=LookedDocument,
    responses=documented(413, conditional=False),
)
async def lookup(
    request: Request, view: View, body: LookupDocument, *, min_position: MinPosition = None, escaped: Escaped = False
) -> Response:
    """The rows that have any of many keys, at one snapshot, in the order of the keys.

    For a token that is restricted to rows all other keys are `hidden`, whether anything was counted for them or not.
    """
    server, principal = server_of(request), principal_of(request)
    most = server.settings.max_rows
    if len(body.keys) > most:
        raise Problem(400, f"the lookup has {len(body.keys)} keys; the limit is {most}")
    lane = server.lane
    lane.snapshot()

    def looked_up(cache: AnswerCache) -> tuple[Found, dict[str, list[int]]]:
        of = view_for(cache.views(), view, principal)
        every = wanted(of, body.values())
        # Keys that the caller may not see are not looked up, so that not even the time of the answer reveals them.
        keys = visible(every, principal.rights.bound(of) or {})
        hidden = np.setdiff1d(every["_n"].to_numpy(), keys["_n"].to_numpy())
        question = lookup_question(of, principal, body)
        measures = parse_measures(of, None if body.measures is None else ",".join(body.measures))
        answer = cache.of_keys(question, keys)
        found = matched(of, answer.table, keys)
        tag = sha256(f"{answer.tag}{body.keys}".encode()).hexdigest()
        told = answer.provenance.of(touched=any_touched(split(found.rows)[1]))
        answer = replace(answer, table=found.rows, provenance=told, tag=tag)
        return Found(answer, measures, bool(principal.rights.rows)), {"absent": list(found.absent), "hidden": hidden.tolist()}

    if min_position is None:
        found, without = await lane.ask(looked_up, by=str(principal))
    else:
        of = await lane.ask(lambda cache: view_for(cache.views(), view, principal), by=str(principal))
        found, without = await ask_fresh(
            server,
            lane,
            of,
            looked_up,
            by=str(principal),
            min_position=min_position,
            max_age=None,
            at_the_cut=body.layer == "batch",
            bound=bool(principal.rights.rows),
        )
    if found.answer.table.num_rows > most:
        raise Problem(
            400, f"these keys have {found.answer.table.num_rows} rows; the limit is {most}; narrow them with from and to"
        )
    return await respond(request, found, limit=None, escaped=escaped, extra=without)
