"""A source whose newest records are rejected is red, with position, reason, sample and cause, and well again by itself."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.cli.__main__ import main
from tandem.cli.doctor import state as looks
from tandem.ledger.files.file_ranges import RECORDS
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.realtime.commits import Commit
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.status import rejected_tails
from tandem.serving.status.rejected_tails import LEAST, ArchiveTail, RejectedTail, archive_tail, tail_of_rejects
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tests.cli.doctor.looked import fine, wrong
from tests.cli.metrics.figures import parsed
from tests.serving.world import SOURCE, World, hit, position

Outcomes = Sequence[tuple[int, int]]
"""Of each commit how many events and rejects."""

COMMITS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)


def renamed(size: int) -> bytes:
    """A hit of a producer that calls `bytes` by another name."""
    return hit("/a", size).replace(b'"bytes"', b'"size"')


def at(commits: Outcomes) -> RejectedTail | None:
    """What is rejected after these commits, where nothing is archived."""
    start, made = 0, []
    for events, rejects in filter(any, commits):
        end = start + events + rejects
        counts = Counts(events=events, quarantined={"json": rejects} if rejects else {})
        made.append(Commit(Position.of({("T", 0): start}), Position.of({("T", 0): end}), 1, "fold", counts=counts))
        start = end
    tail = RealtimeTail(LOG_START, Position.of({("T", 0): start}), tuple(made))
    return tail_of_rejects(tail, ArchiveTail())


@given(COMMITS)
def test_a_source_that_decodes_is_never_red(commits: Outcomes) -> None:
    assert at([(events, 0) for events, _ in commits]) is None


@given(COMMITS, st.integers(LEAST, 60), st.data())
def test_a_source_is_red_as_soon_as_its_newest_commit_is_rejected_and_well_as_soon_as_it_decodes(
    commits: Outcomes, rejects: int, data: st.DataObject
) -> None:
    """Whatever came before, and however it was cut into commits."""
    few = data.draw(st.integers(0, rejects - 1))
    red = at([*commits, (few, rejects)])
    assert red is not None
    assert red.reason == "json"
    assert at([*commits, (few, rejects), (rejects, few)]) is None


@given(st.lists(st.integers(0, 40), max_size=8), st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_the_position_is_where_the_rejects_begin(decoded: Sequence[int], rejected: Sequence[int]) -> None:
    """To the commit: its counts say no more. Fewer than LEAST rejects leave the commit before them in the count."""
    red = at([*((events, 0) for events in decoded), *((0, rejects) for rejects in rejected)])
    if sum(rejected) < LEAST:
        return
    assert red is not None
    assert red.since == Position.of({("T", 0): sum(decoded)})


def status(world: World, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    code = main(["status", "--project", str(world.folder), "--json"])
    return code, json.loads(capsys.readouterr().out)["sources"][SOURCE]["rejected"]


def test_every_way_shows_a_schema_that_changed_until_records_decode_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path)
    world.append(0, *(hit("/a", n) for n in range(200)))
    world.trigger()
    world.recompute(position(200))
    assert status(world, capsys) == (0, None)
    assert fine(world.folder, "rejects") == "the newest records of every source decode"

    world.append(0, *(renamed(n) for n in range(30)))
    world.trigger()
    code, found = status(world, capsys)
    assert (code, found["records"], found["rejects"]) == (3, 30, {"missing_field": 30})
    assert (found["since"], found["sample"]) == ({"T": {"0": 200}}, None)
    assert "no longer sends a field" in found["cause"]

    # The archive's one run is long, and only its end is rejected; the quarantine has the first reject and a sample.
    world.file_in_archive()
    code, found = status(world, capsys)
    assert (code, found["since"]) == (3, {"T": {"0": 200}})
    assert found["sample"]["position"] == "T/0:229"
    assert "bytes" in found["sample"]["detail"]
    assert wrong(world.folder, "rejects", looks.SILENT).what == found["warning"]
    assert main(["status", "--project", str(world.folder)]) == 3
    assert found["warning"] in capsys.readouterr().out
    assert main(["metrics", "--project", str(world.folder)]) == 0
    assert parsed(capsys.readouterr().out)["tandem_source_rejected"] == {(SOURCE,): 1}

    world.append(0, *(hit("/a", n) for n in range(LEAST)))
    world.trigger()
    assert status(world, capsys) == (0, None)
    assert main(["metrics", "--project", str(world.folder)]) == 0
    assert parsed(capsys.readouterr().out)["tandem_source_rejected"] == {(SOURCE,): 0}


@pytest.mark.parametrize(("values", "first"), [(30, None), (0, 300)])
def test_the_end_of_a_long_run_decides_and_not_its_length(tmp_path: Path, values: int, first: int | None) -> None:
    """Most of the run is rejected and its end decodes, or the other way round; without a speed layer."""
    world = World(tmp_path)
    before, after = (renamed, hit_of) if values else (hit_of, renamed)
    world.append(0, *map(before, range(300)), *map(after, range(30)))
    world.append(1, *map(after, range(3)))
    world.file_in_archive()
    archive = archive_tail(world.tables, SOURCE, decoder_fingerprint(world.project.sources[SOURCE]))
    red = tail_of_rejects(RealtimeTail(LOG_START, LOG_START), archive)
    assert (None if red is None else red.since.get(("T", 0))) == first
    assert red is None or red.since == position(300)


def hit_of(size: int) -> bytes:
    return hit("/a", size)


def test_a_few_rejects_among_many_events_open_no_quarantine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    world.append(0, *map(hit_of, range(50)), renamed(1))
    world.file_in_archive()
    decoder = decoder_fingerprint(world.project.sources[SOURCE])
    archive = archive_tail(world.tables, SOURCE, decoder)
    assert (archive.since, archive.samples) == ({}, {})
    assert tail_of_rejects(RealtimeTail(LOG_START, LOG_START), archive) is None


def test_the_quarantine_is_read_within_a_bound_of_all_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An equal share of each partition, without details; then the details of the samples alone."""
    world = World(tmp_path)
    world.append(0, *map(renamed, range(60)), b"{")
    world.append(1, *map(renamed, range(60)))
    world.file_in_archive()
    reads = []

    def count_offsets(place: Any, part: Slice, where: Any, columns: Sequence[str], **options: Any) -> Iterator[pa.Table]:
        reads.append((part.ranges.length, set(columns) - set(RECORDS.names)))
        return scan(place, part, where, columns, **options)

    monkeypatch.setattr(rejected_tails, "LOOK_BACK", 40)
    monkeypatch.setattr(rejected_tails, "scan", count_offsets)
    archive = archive_tail(world.tables, SOURCE, decoder_fingerprint(world.project.sources[SOURCE]))
    assert reads == [(40, {"timestamp", "reason"}), (2, {"reason", "detail"})]
    assert archive.since == {("T", 0): 41, ("T", 1): 40}
    assert {reason: "bytes" in sample.detail for reason, sample in archive.samples.items()} == {
        "missing_field": True,
        "json": False,
    }


def test_one_reject_is_a_source_of_its_own(tmp_path: Path) -> None:
    """A source that has fewer records than decide is judged by all of them; without records it is well."""
    assert at([]) is None
    assert at([(0, 1)]) is not None
    assert at([(1, 1)]) is None
