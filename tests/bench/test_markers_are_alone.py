"""A marker is the only event of its keys, so an answer shows whether it is counted."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import msgspec
import pytest

from bench.stock.answers import answers, differing
from bench.stock.jobs.spark_views import SIX
from bench.stock.marker import keys_of, marker, marker_of
from bench.stock.systems import PROJECT
from examples.web.generator import Truth, generate
from views.project.project import Project, load
from views.testing import answer

BASE = datetime(2026, 11, 1, tzinfo=UTC)
NUMBERS = [0, 1, 25, 26, 27, 700, 12_345]


@pytest.fixture(scope="module")
def project() -> Project:
    return load(PROJECT)


def events(project: Project, values: list[bytes]) -> list[Any]:

    (source,) = project.sources.values()
    return [msgspec.json.decode(value, type=source.event) for value in values]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_key_names_its_marker(number: int) -> None:
    assert {marker_of(key) for key in keys_of(number).values()} == {number}


def test_ordinary_events_have_no_markers_keys() -> None:
    for _, _, facts in islice(generate(1, 2000, base=BASE), 2000):
        if facts is not None:
            assert [marker_of(key) for key in (facts.path, facts.user, facts.status)] == [None] * 3


def test_every_view_with_keys_has_the_markers_row(project: Project) -> None:
    values = [marker(number, BASE + timedelta(days=300))[0] for number in NUMBERS]
    for view in SIX:
        rows = answer(project.views[view.name], events(project, values))
        for (name,) in [tuple(view.keys)] if view.keys else []:
            assert {row[name] for row in rows} == {keys_of(number)[view.name] for number in NUMBERS}


def test_the_six_views_are_the_same_in_both_languages(project: Project) -> None:
    """Names, keys, filters and windows; the numbers are compared by the benchmark itself."""
    assert [view.name for view in SIX] == list(project.views)
    for ours, theirs in zip(SIX, project.views.values(), strict=True):
        assert list(ours.keys) == list(theirs.keys)
        assert list(ours.measures) == list(theirs.measures)
        assert ours.where == (theirs.where or "true")


def test_answers_agree_with_the_expected_ones_and_a_wrong_one_does_not(project: Project) -> None:
    truth, values = Truth(), []
    for _, value, facts in generate(1, 500, base=BASE):
        if facts is not None:
            truth.add(facts)
            values.append(value)
    expected = truth.manifest()
    rows = {view.name: answer(project.views[view.name], events(project, values)) for view in SIX}
    assert differing(answers(SIX, expected), answers(SIX, rows)) == 0
    rows["totals"][0]["requests"] += 1
    rows["page_traffic"].pop()
    assert differing(answers(SIX, expected), answers(SIX, rows)) == 2
