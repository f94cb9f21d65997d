"""The steps of a request: from which offsets, up to which cut, and into which parts it folds."""

from dataclasses import replace
from pathlib import Path

import pytest

from tandem.batch.recompute.plan import Request, Step, steps
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
    further = Step(SOURCE, "incremental", cut, None, parts)
    whole = Step(SOURCE, "full", LOG_START, None, none)
    for request, step in (
        (Request(), further),
        (Request(mode="incremental"), further),
        (Request(mode="full"), whole),
        (Request(mode="full", raw=True), whole),
        (Request(keep_cut=True), replace(whole, cut=cut)),
        (Request(views=("ever",)), replace(whole, cut=cut, views={"ever": ()})),
    ):
        assert steps(world.project, live, request) == [step], request
    nothing = replace(live, cuts={})
    assert steps(world.project, nothing, Request(mode="incremental")) == [whole]
    assert steps(world.project, nothing, Request(keep_cut=True)) == []
