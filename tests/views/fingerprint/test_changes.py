"""What is said of sources and views as wholes, and that no parameter of a definition can be forgotten."""

import dataclasses
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tandem.views.fingerprint.definition_diff import (
    DefinitionChange,
    DefinitionChanges,
    SourceChanges,
    ViewChanges,
    compare,
    continued,
)
from tandem.views.fingerprint.hashed_parts import LABELS, _measure, source_meaning, view_meaning
from tandem.views.measures.custom import CustomMeasure
from tandem.views.measures.derived import Derived
from tandem.views.project.project import Project, load, load_files
from tandem.views.source.event import Event
from tandem.views.source.source import Source
from tandem.views.view import View
from tests.views.edited import edited
from tests.views.test_written import PARTS

D = "definitions.py"
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return edited(tmp_path_factory.mktemp("before"))


@pytest.fixture
def changed(before: Project, tmp_path: Path) -> Any:
    return lambda *edits: compare(before, edited(tmp_path, *edits))


def source(changes: DefinitionChanges, name: str) -> SourceChanges:
    return next(one for one in changes.sources if one.name == name)


def view(changes: DefinitionChanges, name: str) -> ViewChanges:
    return next(one for one in changes.views if one.name == name)


def test_nothing_has_changed_of_a_project_elsewhere(changed: Any) -> None:
    found = changed()
    assert not found.different
    assert found.files == ()
    assert {one.status for one in (*found.sources, *found.views)} == {"unchanged"}
    assert not [change for source in found.sources for change in source.changes]
    assert not [change for view in found.views for change in view.changes]


@pytest.mark.parametrize("folder", sorted(toml.parent for toml in EXAMPLES.glob("*/tandem.toml")), ids=lambda folder: folder.name)
def test_nothing_has_changed_of_an_example_that_is_stored(folder: Path) -> None:
    wanted = load(folder)
    found = compare(load_files(wanted.files), wanted)
    assert not found.different
    assert not [change for source in found.sources for change in source.changes]
    assert not [change for view in found.views for change in view.changes]


def test_a_file_that_reads_otherwise_is_named_although_nothing_differs(changed: Any) -> None:
    found = changed(("rules.py", "result", "capped"))
    assert (found.different, found.files) == (False, ("rules.py",))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('topic="orders"', 'topic="orders2"', 'topic: "orders" -> "orders2"'),
        ('topic="orders"', 'key="id", topic="orders"', 'key: None -> "id"'),
        (
            'topic="orders"',
            'lateness=__import__("datetime").timedelta(minutes=1), topic="orders"',
            "lateness: timedelta(seconds=10) -> timedelta(minutes=1)",
        ),
        (
            'topic="orders"',
            'idle=__import__("datetime").timedelta(0), topic="orders"',
            "idle: timedelta(minutes=1) -> timedelta(days=0)",
        ),
        (
            'topic="orders"',
            'dedup_window=__import__("datetime").timedelta(0), topic="orders"',
            "dedup_window: timedelta(minutes=10) -> timedelta(days=0)",
        ),
    ],
)
def test_labels_of_a_source_change_it_but_no_number(changed: Any, old: str, new: str, words: str) -> None:
    found = changed((D, old, new))
    assert source(found, "orders") == SourceChanges("orders", "changed", (DefinitionChange(words, "none"),))
    assert found.different
    assert {one.status for one in found.views} == {"unchanged"}


def test_other_events_are_built_from_the_archive_and_so_are_their_views(changed: Any) -> None:
    found = changed((D, "note: str", "note: int"))
    assert [(one.name, one.kind, one.rebuilt) for one in found.sources] == [
        ("orders", "source", True),
        ("copies", "source", True),
        ("lines", "none", False),
    ]
    assert [(one.name, one.computed_from) for one in found.views] == [("sales", "archive"), ("words", "nothing")]


def test_another_identity_changes_no_event(changed: Any) -> None:
    found = changed((D, 'identity=("id", "size")', 'identity=("id",)'))
    assert (source(found, "orders").kind, source(found, "orders").rebuilt) == ("breaking", False)
    assert (view(found, "sales").kind, view(found, "sales").computed_from) == ("breaking", "events")


def test_only_measures_beside_the_old_ones_are_an_addition(changed: Any) -> None:
    more = (D, '"each":', '"low": mean("amount"), "each":')
    found = view(changed(more), "sales")
    assert (found.kind, found.added_measures, found.computed_from) == ("additive", ("low",), "events")
    found = view(changed(more, (D, "minutes=1", "minutes=2")), "sales")
    assert (found.kind, found.added_measures, found.computed_from) == ("breaking", (), "events")


def test_a_view_under_another_name_keeps_its_batch_view(changed: Any) -> None:
    found = changed((D, "sales", "sold"))
    assert [(one.name, one.status, one.kind, one.computed_from) for one in found.views] == [
        ("sold", "added", "none", "nothing"),
        ("words", "unchanged", "none", "nothing"),
        ("sales", "removed", "breaking", "nothing"),
    ]


def test_a_view_of_a_new_source_waits_for_its_archive(changed: Any) -> None:
    found = changed((D, "lines = Source(", "lines = Source(name='texts', "))
    assert [(one.name, one.status, one.rebuilt) for one in found.sources if one.status != "unchanged"] == [
        ("texts", "added", True),
        ("lines", "removed", False),
    ]
    assert view(found, "words").changes == (DefinitionChange("source: lines -> texts", "source"),)
    assert view(found, "words").computed_from == "archive"


def test_what_decoder_and_prepare_both_reach_is_told_once_with_the_worst(tmp_path: Path) -> None:
    shared = ("lines.py", 'return "the"', "return fields_of(b'the|')[0]")
    old = edited(tmp_path / "old", shared)
    new = edited(tmp_path / "new", shared, ("tables/shifts.py", 'b"|"', 'b";"'))
    assert view(compare(old, new), "words").changes == (
        DefinitionChange("constant MARK in tables/shifts.py:3 changed", "source"),
    )


class Item(Event):
    at: datetime
    size: int


def test_every_parameter_of_a_source_counts_or_is_a_label(before: Project) -> None:
    """Whoever adds one decides: it is a part of the meaning, under its name, or it is listed among the labels."""
    # `on_bad_event` counts where a record holds a list; the others here unless at their defaults.
    orders = dataclasses.replace(before.sources["orders"], max_events_per_record=2, tombstones="skip", start="now")
    meaning = source_meaning(dataclasses.replace(orders, identity=("id",), identity_spans="any_time"))
    unnested = source_meaning(Source(topic="items", event=Item, event_time="at", unnest="size", max_events_per_record=2))
    until = source_meaning(dataclasses.replace(before.sources["orders"], history_until=datetime(2026, 1, 1, tzinfo=UTC)))
    counted = {"name", *(name for one in (meaning, unnested, until) for name in (*one.parts, *one.parts["decoder"].parts))}
    parameters = {field.name for field in dataclasses.fields(Source)}
    assert parameters == (counted & parameters) | set(LABELS)
    assert not counted & set(LABELS)


def test_every_parameter_of_a_view_counts_or_is_for_readers(before: Project) -> None:
    counted = set(view_meaning(before.views["sales"]).parts) - {"version"}
    # `keep` and `lookup` count where they are given (tests/views/test_keep.py, tests/together/test_lookups_agree.py).
    readers = {"name", "doc", "docs", "units", "tolerances", "expect"}
    assert {field.name for field in dataclasses.fields(View)} - counted - {"keep", "lookup"} == readers


@pytest.mark.parametrize("part", [part for part in PARTS.values() if not isinstance(part, Derived | CustomMeasure)], ids=str)
def test_every_parameter_of_a_measure_or_window_counts(part: Any) -> None:
    """Those that are expressions count by their meaning, so they are among its inputs."""
    value = _measure("part", part, []).value
    assert {*value["parameters"], *value["expressions"]} == {field.name for field in dataclasses.fields(part)}


@pytest.mark.parametrize(
    ("published", "wanted", "expected"),
    [
        ({"a": "1"}, {"b": "1"}, {"b": "a"}),
        ({"a": "1", "b": "2"}, {"a": "2", "b": "1"}, {"a": "b", "b": "a"}),
        ({"a": "1"}, {"a": "1", "b": "1"}, {"a": "a"}),
        ({"a": "1"}, {"b": "1", "c": "1"}, {"b": "a"}),
        ({"a": "1", "b": "1"}, {"c": "1", "b": "1"}, {"b": "b", "c": "a"}),
        ({"a": "1", "b": "1"}, {"c": "1", "d": "1", "e": "1"}, {"c": "a", "d": "b"}),
        ({"a": "1"}, {"a": "2"}, {}),
    ],
)
def test_a_batch_view_goes_on_as_one_view_at_most(published: Any, wanted: Any, expected: Any) -> None:
    """Two views of one table would both add a batch version to it, and each would read the rows of both."""
    assert continued(published, wanted) == expected
