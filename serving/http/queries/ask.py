"""Asking a question: wait until the answer is as fresh as requested, in the lane that answers the view."""

from dataclasses import dataclass

from fastapi import Request

from tandem.serving.access.rights import Principal
from tandem.serving.http.answers.cache import AnswerCache, CachedAnswer
from tandem.serving.http.protocol import cursor as cursors
from tandem.serving.http.protocol.parameters import RowParameters, RowsParameters
from tandem.serving.http.queries.parse import parse_measures, question_of
from tandem.serving.http.queries.permitted_views import view_for
from tandem.serving.http.requests.freshness import ask_fresh
from tandem.serving.http.requests.server import principal_of, server_of
from tandem.serving.read.past_publication import live_at
from tandem.serving.read.selection import BadSelection, parse_time


@dataclass(frozen=True)
class Found:
    """An answer, and what the response shows of it: these `measures`, and the rows after the first `given`.

    `bound` says whether the caller is restricted to rows.
    """

    answer: CachedAnswer
    measures: tuple[str, ...]
    bound: bool
    given: int = 0


async def ask(request: Request, name: str, parameters: RowsParameters | RowParameters) -> Found:
    """The answer to a request for rows of a view. Raises Problem, BadSelection, Gone, ReadFailed."""
    server, principal = server_of(request), principal_of(request)
    if parameters.publication is not None and parameters.as_of is not None:
        raise BadSelection("publication and as_of cannot be combined")
    past = parameters.publication is not None or parameters.as_of is not None
    wants_fresh = bool(parameters.min_position or parameters.max_age)
    if past and wants_fresh:
        raise BadSelection("min_position and max_age cannot be combined with publication or as_of")
    lane = server.lane
    if not past:
        lane.snapshot()

    def found(cache: AnswerCache) -> Found:
        return _found(cache, principal, name, parameters)

    if not wants_fresh:
        return await lane.ask(found, by=str(principal))
    view = await lane.ask(lambda cache: view_for(cache.views(), name, principal), by=str(principal))
    return await ask_fresh(
        server,
        lane,
        view,
        found,
        by=str(principal),
        min_position=parameters.min_position,
        max_age=parameters.max_age,
        at_the_cut=parameters.layer == "batch",
        bound=bool(principal.rights.rows),
    )


def _found(cache: AnswerCache, principal: Principal, name: str, parameters: RowsParameters | RowParameters) -> Found:
    as_of = parameters.as_of
    publication = parameters.publication if as_of is None else live_at(cache.store.tables, parse_time(as_of))
    view = view_for(cache.views(publication), name, principal)
    question = question_of(view, principal, parameters, publication)
    measures = parse_measures(view, parameters.measures)
    bound = bool(principal.rights.rows)
    if isinstance(parameters, RowParameters) or parameters.cursor is None:
        return Found(cache.answer(question), measures, bound)
    at = cursors.parse(parameters.cursor)
    if at.digest != question.digest:
        raise BadSelection("the cursor belongs to another query; change no parameters other than limit and measures")
    return Found(cache.answer(question, stand=at.stand), measures, bound, at.given)
