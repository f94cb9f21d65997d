"""Many keys of a view at once."""

from dataclasses import replace
from hashlib import sha256

import numpy as np
from fastapi import APIRouter, Request, Response

from serving.http.answers.cache import Answers
from serving.http.answers.key_lookup import matched, visible, wanted
from serving.http.answers.question import parse_measures
from serving.http.models.documents import Looked, Lookup
from serving.http.models.openapi import rows as documented
from serving.http.protocol.parameters import Escaped, MinPosition, View
from serving.http.protocol.problem import Problem
from serving.http.queries.response import Asked, Found, question_of, responded, view_for
from serving.http.requests.freshness import wait
from serving.http.requests.gate import Gated
from serving.http.requests.server import lane_of, principal_of, server_of
from serving.read.touched_rows import any_touched, split

router = APIRouter(route_class=Gated, tags=["rows"])


@router.post(
    "/views/{view}/lookup",
    openapi_extra={"x-verb": "read"},
    response_model=Looked,
    responses=documented(413, conditional=False),
)
async def lookup(
    request: Request, view: View, body: Lookup, *, min_position: MinPosition = None, escaped: Escaped = False
) -> Response:
    """The rows that have any of many keys, at one snapshot, in the order of the keys.

    Of a token that is bound to rows all other keys are `hidden`, whether anything was counted of them or not.
    """
    server, principal = server_of(request), principal_of(request)
    most = server.settings.max_rows
    if len(body.keys) > most:
        raise Problem(400, f"the lookup has {len(body.keys)} keys; the limit is {most}")
    lane = await lane_of(server, view)
    lane.snapshot()
    if min_position is not None:
        asked = await lane.ask(lambda answers: view_for(answers.views(), view, principal), by=str(principal))
        await wait(
            server,
            lane,
            asked.source.name,
            min_position=min_position,
            max_age=None,
            at_the_cut=body.layer == "batch",
            bound=bool(principal.rights.rows),
        )

    def looked_up(answers: Answers) -> tuple[Found, dict[str, list[int]]]:
        of = view_for(answers.views(), view, principal)
        every = wanted(of, body.values())
        # What may not be seen is not looked up, so that not even the time that it takes tells of it.
        keys = visible(every, principal.rights.bound(of) or {})
        hidden = np.setdiff1d(every["_n"].to_numpy(), keys["_n"].to_numpy())
        question = question_of(of, principal, Asked(view, start=body.start, end=body.to, layer=body.layer), None)
        measures = parse_measures(of, None if body.measures is None else ",".join(body.measures))
        answer = answers.of_keys(question, keys)
        found = matched(of, answer.table, keys)
        tag = sha256(f"{answer.tag}{body.keys}".encode()).hexdigest()
        told = answer.provenance.of(touched=any_touched(split(found.rows)[1]))
        answer = replace(answer, table=found.rows, provenance=told, tag=tag)
        return Found(answer, measures, bool(principal.rights.rows)), {"absent": list(found.absent), "hidden": hidden.tolist()}

    found, without = await lane.ask(looked_up, by=str(principal))
    if found.answer.table.num_rows > most:
        raise Problem(
            400, f"these keys have {found.answer.table.num_rows} rows; the limit is {most}; narrow them with from and to"
        )
    return await responded(request, found, limit=None, escaped=escaped, extra=without)
