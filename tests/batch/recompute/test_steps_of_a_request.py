"""The steps of a request: from which offsets, up to which cut, and into which parts it folds."""

from dataclasses import replace
from pathlib import Path

import pytest

from tandem.batch.recompute.plan import RecomputeRequest, RecomputeStep, steps
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish.publications import Publications
from tests.serving.world import SOURCE, World, hit


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.append(0, *(hit("/a", n) for n in range(5)))
    world.trigger()
    world.recompute(world.end)
    return world


def test_a_request_is_one_step_for_each_source(world: World) -> None:
    live = Publications(world.tables).latest()
    assert live is not None
    cut, none = live.cut(SOURCE), dict.fromkeys(world.project.views, ())
    parts = {name: view.parts for name, view in live.views.items()}
    assert all(parts.values())
    further = RecomputeStep(SOURCE, "incremental", cut, None, parts)
    whole = RecomputeStep(SOURCE, "full", LOG_START, None, none)
    for request, step in (
        (RecomputeRequest(), further),
        (RecomputeRequest(mode="incremental"), further),
        (RecomputeRequest(mode="full"), whole),
        (RecomputeRequest(mode="full", raw=True), whole),
        (RecomputeRequest(keep_cut=True), replace(whole, cut=cut)),
        (RecomputeRequest(views=("ever",)), replace(whole, cut=cut, views={"ever": ()})),
    ):
        assert steps(world.project, live, request) == [step], request
    nothing = replace(live, cuts={})
    assert steps(world.project, nothing, RecomputeRequest(mode="incremental")) == [whole]
    assert steps(world.project, nothing, RecomputeRequest(keep_cut=True)) == []
