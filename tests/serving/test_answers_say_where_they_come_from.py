"""Rows in order, limits with a total, and a provenance: what was counted, up to where, and how exactly."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.cli.__main__ import main
from tandem.ledger.log.gaps import Gap, Gaps
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.realtime.commits import Commit
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Value, document
from tandem.serving.read.outcome import given as answer_of
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.snapshot import exactness_of
from tandem.serving.read.states import ReadCache
from tandem.views.source.offset_ranges import Ranges
from tests.serving import oracle
from tests.serving.world import APPENDED, DEFINITIONS, NOON, SOURCE, World, hit, position


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Twelve events, the first six below the cut; two pages and NULL in two hours, one malformed, one that `inverse` rejects."""
    made = World(tmp_path_factory.mktemp("world"))
    made.append(0, hit("/b", 2), hit("/a", 3), hit(None, 4), hit("/a", 0, minute=61), b"{", hit("/a", 5, price="99.99"))
    made.trigger()
    made.recompute(position(6))
    made.append(1, hit("/b", 6, minute=-200), hit(None, 7), hit("/a", 8, minute=62), hit("/c", 9), hit("/c", 10), hit("/a", 11))
    made.trigger()
    return made


def value(world: World, view: str = "per_page", **question: object) -> Value:
    answer = Reader(world.tables).answer(view, **question)  # type: ignore[arg-type]
    assert isinstance(answer, Value)
    return answer


def test_the_document_equals_the_output_of_query(world: World) -> None:
    newest = APPENDED + timedelta(seconds=5)  # append times of the test's log are seconds by offset
    found = document(value(world, "inverse"), now=newest + timedelta(seconds=2.5))
    assert found == {
        "view": "inverse",
        "rows": oracle.inverse(world.values(position(), world.end)),
        "provenance": {
            "layer": "merged",
            "publication": 2,
            "release": 1,
            "live": True,
            "fingerprint": world.live.views["inverse"].fingerprint,
            "batch_version": 1,
            "cut": {"T": {"0": 6}},
            "realtime": {"T": {"0": 6, "1": 6}},
            "hot": None,
            "start": None,
            "kept_from": None,
            "history": None,
            "age_s": 2.5,
            # Of the two events of 13 h the records' timestamps are of 11:50.
            "watermark": "2026-11-01T12:00:00Z",
            "after_final": 0,
            "ahead": 2,
            "exactness": {"label": "exact", "rows": "exact", "says": "exact", "every": [], "marked": [], "columns": {}},
            "rejected": {"expression": 1},
            "gaps": [],
        },
    }


def test_each_layer_has_its_own_position_and_freshness(world: World) -> None:
    batch, speed = value(world, layer="batch").provenance, value(world, layer="speed").provenance
    assert (batch.cut, batch.realtime) == (position(6), position(6))
    assert (speed.cut, speed.realtime) == (position(6), position(6, 6))
    assert batch.newest == speed.newest == APPENDED + timedelta(seconds=5)


@pytest.mark.parametrize("events", [(6, 1), (1, 6)])
def test_an_answer_is_as_fresh_as_the_newest_event_of_either_layer(tmp_path: Path, events: tuple[int, int]) -> None:
    """The tail of one partition may be older than what another partition has below the cut."""
    world = World(tmp_path)
    for partition, number in enumerate(events):
        world.append(partition, *(hit("/", n) for n in range(number)))
        world.trigger()
        if partition == 0:
            world.recompute(world.end)
    newest = [value(world, layer=layer).provenance.newest for layer in ("batch", "speed", "merged")]
    assert newest == [APPENDED + timedelta(seconds=number - 1) for number in (*events, max(events))]


def test_no_event_is_newer_than_the_commit_that_counted_it(tmp_path: Path) -> None:
    """A producer's clock that is ahead makes no answer look fresh: the record was in the log by then."""
    world = World(tmp_path, appended=NOON + timedelta(minutes=50))
    world.append(0, hit("/", 1))
    world.trigger()
    assert value(world, "ever").provenance.newest == NOON
    assert document(value(world, "ever"), now=NOON + timedelta(minutes=5))["provenance"]["age_s"] == 300


def test_an_append_clock_ahead_of_ours_gives_no_negative_age(world: World) -> None:
    found = document(value(world), now=APPENDED)
    assert found["provenance"]["age_s"] == 0


def test_inexact_measures_have_their_reasons(world: World) -> None:
    ((name, reasons),) = value(world, "ever").provenance.exactness.columns.items()
    assert (name, [reason.label for reason in reasons]) == ("pages", ["estimate"])
    assert reasons[0].figures["kind"] == "hll"
    assert reasons[0].figures["error"]
    assert reasons[0].figures["confidence"]


def test_no_incomplete_answer_is_labelled_exact(world: World) -> None:
    whole = value(world, "inverse").provenance
    gap = Gap("g", "hits", Ranges.of({("T", 0): (0, 1)}), "lost", NOON)
    view = world.project.views["inverse"]
    known = replace(view, source=replace(view.source, identity=("bytes",)))
    tail = RealtimeTail(LOG_START, position(6, 6))
    less = [
        exactness_of(world.project.views["ever"], tail, (), None),
        exactness_of(replace(view, source=replace(view.source, compacted=True)), tail, (), None),
        exactness_of(known, tail, (), None),
        exactness_of(view, tail, (gap,), None),
    ]
    assert (whole.exact, [one.label == "exact" for one in less]) == (True, [False] * 4)
    assert exactness_of(known, None, (), None).label == "exact"


@given(st.lists(st.none() | st.integers(0, 9), max_size=6))
def test_copies_are_missed_up_to_the_latest_eviction_of_any_commit(evicted: list[int | None]) -> None:
    """An identity that one commit evicted stays forgotten, though the commits before it still had older ones."""
    since = [None if hours is None else NOON + timedelta(hours=hours) for hours in evicted]
    commits = [Commit(position(n), position(n + 1), 1, "fold", identities_since=time) for n, time in enumerate(since)]
    tail = RealtimeTail(position(0), position(len(commits)), tuple(commits))
    assert tail.identities_since == max((time for time in since if time is not None), default=None)


def test_a_compacted_source_is_never_exact(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = World(tmp_path, definitions=DEFINITIONS.replace('event_time="moment"', 'event_time="moment", compacted=True'))
    made.append(0, hit("/a", 1))
    made.trigger()
    provenance = value(made, "inverse").provenance
    assert (provenance.exactness.label, provenance.exact) == ("incomplete", False)
    assert main(["query", "inverse", "--project", str(tmp_path)]) == 0
    assert "the topic is compacted, so events that newer ones replaced may be missing" in capsys.readouterr().out


def test_a_large_version_is_filtered_in_its_files(world: World) -> None:
    expected = value(world).rows(), value(world, keys={"page": None}).rows()
    reader = Reader(world.tables, cache=ReadCache(0))
    assert (
        answer_of(reader.answer("per_page")).rows(),
        answer_of(reader.answer("per_page", keys={"page": None})).rows(),
    ) == expected


def test_a_version_of_several_files_is_read_whole(tmp_path: Path) -> None:
    made = World(tmp_path)
    made.append(0, *(hit(f"/{n}", n) for n in range(1, 30)))
    made.trigger()
    made.write_version("per_page", 9, position(3))
    made.recompute(position(29), files=3)
    assert oracle.unlabelled(value(made, layer="batch").rows()) == oracle.per_page(made.values(position(), position(29)))


def test_a_gap_is_shown_in_every_answer_that_it_touches(tmp_path: Path) -> None:
    made = World(tmp_path)
    made.append(0, *(hit("/", n) for n in range(1, 9)))
    made.trigger(position(4))
    made.recompute(position(4))
    made.trigger()
    Gaps(made.tables).record(SOURCE, Ranges.of({("T", 0): (5, 7)}), reason="retention", at=NOON)
    Gaps(made.tables).record("elsewhere", Ranges.of({("T", 0): (0, 7)}), reason="retention", at=NOON)
    Gaps(made.tables).record(SOURCE, Ranges.of({("T", 0): (1, 2)}), reason="retention", at=NOON)
    shown = {layer: [gap.name for gap in value(made, layer=layer).provenance.gaps] for layer in ("batch", "speed", "merged")}
    assert shown == {"batch": ["hits-gap-2"], "speed": ["hits-gap-1"], "merged": ["hits-gap-1", "hits-gap-2"]}
