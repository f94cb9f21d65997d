"""Runs: `tandem` commands that operators start on the server, and their progress."""

from collections.abc import Sequence
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response

from tandem.serving.http.commands import KEPT, Busy, Command, CommandRun
from tandem.serving.http.models.openapi import problems
from tandem.serving.http.models.operations import (
    ApplyDocument,
    PlanDocument,
    PromoteDocument,
    ResumeDocument,
    RetireDocument,
    RollbackDocument,
    RunStateDocument,
    StartedDocument,
    shown,
)
from tandem.serving.http.models.operations import RunsDocument as Shown
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import principal_of, server_of
from tandem.views.errors import listed

_ADMIN: Final[dict[str, Any]] = {"x-verb": "admin"}
_STARTED: Final[dict[int | str, dict[str, Any]]] = {
    202: {"headers": {"Location": {"description": "The address of the run.", "schema": {"type": "string"}}}},
    **problems(409, 413),
}

Id = Annotated[UUID, Path(description="The run's id.")]

router = APIRouter(route_class=Gated, tags=["steering"])


def _start(
    request: Request, response: Response, command: Command, options: Sequence[str], *, effect: bool = True
) -> StartedDocument:
    try:
        run = server_of(request).runs.start(command, options, by=principal_of(request), effect=effect)
    except Busy as busy:
        raise Problem(409, str(busy), headers={"Location": f"/runs/{busy.run.id}"}, more={"run": busy.run.id}) from busy
    response.headers["Location"] = f"/runs/{run.id}"
    return StartedDocument(run=run.id)


def _run(request: Request, number: UUID) -> CommandRun:
    runs = server_of(request).runs
    found = runs.find(str(number))
    if found is None:
        known = listed(str(number), [run.id for run in runs.newest_first()])
        raise Problem(404, f"no run {number}; the server keeps the newest {KEPT} runs since its start: {known}")
    return found


@router.post("/runs/plan", openapi_extra=_ADMIN, status_code=202, responses=_STARTED)
async def plan(request: Request, response: Response, body: PlanDocument) -> StartedDocument:
    """Show how the project's definitions differ from the published ones: `tandem plan`. It has no effect."""
    return _start(request, response, "plan", body.words(), effect=False)


@router.post("/runs/apply", openapi_extra=_ADMIN, status_code=202, responses=_STARTED)
async def apply(request: Request, response: Response, body: ApplyDocument) -> StartedDocument:
    """Build the project's definitions as a release beside the live one, and compare their answers: `tandem apply`."""
    return _start(request, response, "apply", body.words())


@router.post("/runs/promote", openapi_extra=_ADMIN, status_code=202, responses=_STARTED)
async def promote(request: Request, response: Response, body: PromoteDocument) -> StartedDocument:
    """Promote a release that is ready: `tandem promote`. With `check` it has no effect, and shows how its answers differ."""
    return _start(request, response, "promote", body.words(), effect=not body.check)


@router.post("/runs/rollback", openapi_extra=_ADMIN, status_code=202, responses=_STARTED)
async def rollback(request: Request, response: Response, body: RollbackDocument) -> StartedDocument:
    """Make an earlier publication live again: `tandem rollback`."""
    return _start(request, response, "rollback", body.words())


@router.post("/runs/retire", openapi_extra=_ADMIN, status_code=202, responses=_STARTED)
async def retire(request: Request, response: Response, body: RetireDocument) -> StartedDocument:
    """Retire a release that is not live: `tandem retire`."""
    return _start(request, response, "retire", body.words())


@router.post("/runs/resume", openapi_extra=_ADMIN, status_code=202, responses=_STARTED)
async def resume(request: Request, response: Response, body: ResumeDocument) -> StartedDocument:
    """Allow recomputes to publish again after a rollback: `tandem resume`."""
    return _start(request, response, "resume", body.words())


@router.get("/runs", openapi_extra=_ADMIN, responses=problems())
async def runs(request: Request) -> Shown:
    """List the runs of this server, the newest first: the last 50 since it started, from memory."""
    return Shown(runs=[shown(run) for run in server_of(request).runs.newest_first()])


@router.get("/runs/{id:uuid}", openapi_extra=_ADMIN, responses=problems(404))
async def run(request: Request, id: Id) -> RunStateDocument:  # noqa: A002 - the parameter's name in the path
    """Show a run: its state, the last lines of its progress, and the document that it printed."""
    return shown(_run(request, id))


@router.delete("/runs/{id:uuid}", openapi_extra=_ADMIN, responses=problems(404))
async def stop(request: Request, id: Id) -> RunStateDocument:  # noqa: A002 - likewise
    """Stop a run: the command is asked to end, and killed ten seconds later. A run that has ended does not change.

    What the command did until then stays; it can be run again.
    """
    found = _run(request, id)
    server_of(request).runs.stop(found)
    return shown(found)
