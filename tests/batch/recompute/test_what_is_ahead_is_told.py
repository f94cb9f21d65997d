"""The estimate of a run comes from the statistics of the files of its range and windows."""

from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from tandem.batch.recompute.estimate import RAW, Expected, duration, estimate_text, expected, size
from tandem.ledger.files.file_ranges import EVENTS, file_ranges
from tandem.ledger.files.splits import cut
from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.ledger.publish.batch_parts import Windows
from tandem.ledger.publish.rates import Estimate, RunRates
from tandem.ledger.publish.releases import Releases
from tandem.views.kernel.kernel import decode
from tests.serving.world import DEFINITIONS, NOON, SOURCE, World, hit, position


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two files of events and records: twenty of noon, then ten of the next day in another partition."""
    world = World(tmp_path)
    world.append(0, *(hit("/a", n, minute=n) for n in range(20)))
    world.append(1, *(hit("/a", n, minute=60 * 24) for n in range(10)))
    decoder = Releases(world.tables).load(1).sources[SOURCE]
    for start, end in ((LOG_START, position(20)), (position(20), world.end)):
        records = world.records(start, end)
        events = decode(world.project.sources[SOURCE], records).events
        write_deltalake(world.tables.events(SOURCE, decoder), events, mode="append")
        write_deltalake(world.tables.archive(SOURCE), records, mode="append")
    return world


def ahead(world: World, kind: str, start: Position, end: Position, windows: Windows | None = None) -> Expected:
    decoder = Releases(world.tables).load(1).sources[SOURCE]
    source = world.project.sources[SOURCE]
    return expected(world.tables, source, decoder, kind=kind, views=3, start=start, end=end, windows=windows)


@pytest.mark.parametrize("kind", ["full", RAW])
def test_the_estimate_counts_the_rows_of_the_range(world: World, kind: str) -> None:
    whole = ahead(world, kind, LOG_START, world.end)
    assert (whole.rows, whole.views, whole.estimate) == (30, 3, None)
    half = ahead(world, kind, LOG_START, position(10))
    assert half.rows == 10
    assert 0 < half.bytes < whole.bytes
    assert ahead(world, kind, position(20, 4), world.end).rows == 6
    assert ahead(world, kind, world.end, world.end).rows == 0


@pytest.mark.parametrize("partitions", [1, 2])
def test_the_estimate_of_records_with_several_events_counts_events(tmp_path: Path, partitions: int) -> None:
    """Forty records in two files, of one to seven events each: as many events as there are, not as there are records."""
    world = World(
        tmp_path, definitions=DEFINITIONS.replace('event_time="moment"', 'event_time="moment", max_events_per_record=7')
    )
    decoder = Releases(world.tables).load(1).sources[SOURCE]
    source, start, held = world.project.sources[SOURCE], LOG_START, []
    for file in range(2):
        for n in range(20):
            several = b", ".join(hit("/a", n, minute=n) for _ in range(1 + (3 * n + file) % 7))
            world.append(n % partitions, b"[" + several + b"]")
        events = decode(source, world.records(start, world.end)).events
        write_deltalake(world.tables.events(SOURCE, decoder), events, mode="append")
        held.append((start, world.end, events.num_rows))
        start = world.end
    whole = ahead(world, "full", LOG_START, world.end)
    assert (whole.rows, whole.words[: whole.words.index(",")]) == (held[0][2] + held[1][2], f"about {whole.rows} events")
    for first, end, rows in held:
        assert ahead(world, "full", first, end).rows == rows
    files = file_ranges(DeltaTable(world.tables.events(SOURCE, decoder)), EVENTS)
    assert sum(part.rows for part in cut(files, ranges(LOG_START, world.end), rows=10**6)) >= whole.rows
    if partitions == 1:
        assert ahead(world, "full", LOG_START, position(10)).rows == pytest.approx(held[0][2] / 2, abs=1)


def test_the_estimate_counts_the_rows_of_the_windows(world: World) -> None:
    day = timedelta(days=1)
    assert ahead(world, "windows", LOG_START, world.end, (NOON, NOON + day / 2)).rows == 20
    assert ahead(world, "windows", LOG_START, world.end, (NOON + day, NOON + 2 * day)).rows == 10


def test_a_timed_run_gives_an_estimate_for_its_kind(world: World) -> None:
    first = ahead(world, "full", LOG_START, position(10))
    RunRates(world.tables).record(first.took(4.0, at=NOON))
    assert ahead(world, "full", LOG_START, world.end).estimate == Estimate(12.0, 1, 10)
    assert ahead(world, "incremental", LOG_START, world.end).estimate is None
    assert first.words.endswith("into 3 views; no estimate yet, because no similar run has been timed")
    assert ahead(world, "full", LOG_START, world.end).to_json()["seconds"] == 12.0


def test_sizes_and_durations_are_in_readable_units() -> None:
    assert [size(number) for number in (0, 999, 12_345, 3_000_000, 7 * 10**12)] == [
        "0 bytes",
        "999 bytes",
        "12.3 kB",
        "3 MB",
        "7 TB",
    ]
    assert [duration(seconds) for seconds in (0.4, 89, 91, 3600)] == ["0 s", "89 s", "2 min", "60 min"]
    assert estimate_text(Estimate(240.0, 5, 1000)) == "estimated 4 min, from 5 runs of up to 1000 rows"
