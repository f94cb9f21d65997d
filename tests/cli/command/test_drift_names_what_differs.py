"""Definitions that differ from the published release are named for every kind of change; formatting is not one."""

from pathlib import Path

import pytest

from tandem.cli.command.drift import Drift, drift, since_published
from tandem.views.project import project
from tests.serving.world import DEFINITIONS, World


def compared(world: World, definitions: str) -> Drift:
    (world.folder / "definitions.py").write_text(definitions)
    return drift(since_published(world.tables, world.live, project.load(world.folder)))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def test_comments_and_formatting_are_not_a_difference(world: World) -> None:
    found = compared(world, DEFINITIONS.replace("bytes > 0", "bytes   >  0") + "\n# a comment\n")
    assert found == Drift()
    assert found.sentences() == []


def test_a_changed_a_new_and_a_removed_view_are_named(world: World) -> None:
    text = DEFINITIONS.replace("bytes > 0", "bytes > 1").replace("inverse = ", "reverse = ").replace("inverse)", "reverse)")
    found = compared(world, text)
    assert (found.changed, found.added, found.removed, found.sources) == (("ever",), ("reverse",), ("inverse",), ())
    (sentence,) = found.sentences()
    assert "changed views: ever; new views: reverse; removed views: inverse" in sentence
    assert "tandem apply" in sentence


def test_a_moved_source_is_named_although_no_number_changes(world: World) -> None:
    found = compared(world, DEFINITIONS.replace('topic="hits"', 'topic="clicks"'))
    assert found == Drift(sources=("hits",))


def test_a_changed_event_type_changes_source_and_views(world: World) -> None:
    found = compared(world, DEFINITIONS.replace("bytes: int", "bytes: int\n    agent: str"))
    assert found == Drift(changed=("per_page", "ever", "inverse"), sources=("hits",))


def test_an_unreadable_folder_is_a_problem_and_not_a_difference() -> None:
    (sentence,) = Drift(problem="definitions.py:3: no field 'pth'").sentences()
    assert sentence.endswith("definitions.py:3: no field 'pth'")
    assert Path("definitions.py").name in sentence
