"""A retained publication answers as the log below its cut; any other is refused by name."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.log.positions import LOG_START
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Absent, Failed, Value
from tandem.serving.read.selection import BadSelection
from tests.samples import just
from tests.serving import oracle
from tests.serving.world import World, hit, position


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@just(10, quick=4)
@given(cuts=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_every_publication_answers_at_its_own_cut(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]) -> None:
    world = World(tmp_path_factory.mktemp("world"))
    for more in cuts:
        world.append(0, *(hit(f"/{n}", more * n) for n in range(more)))
        world.trigger()
        world.recompute(world.end)
    world.append(0, hit("/later", 1))
    world.trigger()
    for number in range(len(cuts)):
        answer = Reader(world.tables, number + 2).answer("per_page", layer="batch")
        assert isinstance(answer, Value)
        cut = position(sum(cuts[: number + 1]))
        assert oracle.unlabelled(answer.rows()) == oracle.per_page(world.values(LOG_START, cut))
        assert (answer.provenance.publication, answer.provenance.realtime, answer.provenance.layer) == (number + 2, cut, "batch")


def test_the_first_publication_has_counted_nothing(world: World) -> None:
    world.append(0, hit("/a", 1))
    world.trigger()
    assert isinstance(Reader(world.tables, 1).answer("per_page", layer="batch"), Absent)


def test_another_layer_is_refused(world: World) -> None:
    for layer in ("speed", "merged"):
        with pytest.raises(BadSelection, match=f"publication 1 .* not {layer}"):
            Reader(world.tables, 1).answer("per_page", layer=layer)


def test_an_absent_publication_is_refused_with_the_retained_ones(world: World) -> None:
    failed = Reader(world.tables, 7).refresh()
    assert failed == Failed("cannot answer from publication 7: it does not exist; retained: 1")
    world.append(0, hit("/a", 1))
    world.trigger()
    world.recompute(world.end)
    world.recompute(world.end)
    world.drop_version("ever", 1)
    failed = Reader(world.tables, 2).refresh()
    assert failed == Failed("cannot answer from publication 2: its batch views are no longer retained; retained: 1, 3")
