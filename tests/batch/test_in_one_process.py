"""Archive, recompute and apply one after the other: what one leaves is what the next one needs."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.recompute.build import build_all
from tandem.batch.recompute.plan import RecomputeRequest, RecomputeStep
from tandem.batch.runtime import scratch
from tandem.infra.settings import LineageSettings
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.publish.releases import Releases
from tests.batch.release import test_apply as applying
from tests.batch.shop import DEFINITIONS, MemoryShop, Shop, answers, records, rows_of, truth


def test_an_archive_run_reports_new_records_and_names_a_gap(shop: Shop) -> None:
    """Each run its own records, none if nothing came; a topic that lost records before a run loses just these."""
    if not isinstance(shop, MemoryShop):
        pytest.skip("a real topic skips no offset on demand")
    topic = shop.log
    for seed in (51, 52):
        log = records(seed, 60)
        shop.sell(log)
        (done,) = write_archive.run(shop.run("archive"), shop.project)
        found = truth(log)
        assert done.counts.records == done.counts.events == sum(map(len, log.values())) - found.quarantined
        assert sum(done.counts.quarantined.values()) == found.quarantined
        assert (done.end, done.gaps) == (topic.end, ())
    (done,) = write_archive.run(shop.run("archive"), shop.project)
    assert (done.counts.offsets, done.end, len(ArchiveLedger(shop.tables, "sales").runs())) == (0, topic.end, 2)

    start = topic.end[shop.topic.id, 0]
    shop.sell({0: records(53, 9)[0]})
    topic.skip(0, 3)
    topic.delete_below({0: start + 1})
    (done,) = write_archive.run(shop.run("archive"), shop.project)
    assert (done.gaps, done.counts.holes) == (("sales-gap-1",), 4)
    (gap,) = Gaps(shop.tables).of("sales")
    assert gap.ranges.to_json() == {shop.topic.id: {"0": [[start, start + 1]]}}


def test_windows_that_were_rebuilt_are_compared_once(shop: Shop) -> None:
    """The rows of the part that replaces some windows are the live rows, for a release's differences and for its readers."""
    log = records(54, 300)
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    at = datetime(2026, 3, 1, tzinfo=UTC)
    request = RecomputeRequest(windows=(at, at + timedelta(hours=1)), views=("per_hour",))
    live = recompute.run(shop.run("recompute"), shop.project, request).publication
    assert [part.windows is None for part in live.views["per_hour"].parts] == [True, False]
    done = applying.applied(shop, DEFINITIONS.replace('mean("cents")', 'mean("cents + 1")'))
    assert done.diff is not None
    found = done.diff.views["per_hour"]
    rows = len(answers(shop, live, "per_hour"))
    assert (found["matched"], found["changed"], found["only_old"], found["only_new"]) == (rows, rows, 0, 0)
    assert {name: one["differ"] for name, one in found["measures"].items()} == {"n": 0, "cents": 0, "biggest": 0, "usual": rows}


def test_definitions_of_an_earlier_release_become_a_new_one(shop: Shop) -> None:
    """So that `promote` without a number, which goes forward only, makes them live."""
    shop.sell(records(56, 60))
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    for number, definitions in ((2, applying.CHANGED), (3, DEFINITIONS.replace('mean("cents")', 'mean("cents + 1")'))):
        assert applying.applied(shop, definitions).release == number
        assert applying.promoted(shop).release == number
    assert applying.applied(shop, applying.CHANGED).release == 4
    assert applying.applied(shop, applying.CHANGED).release == 4, "what is ready after the live release is used again"
    assert applying.promoted(shop).release == 4


def test_each_release_has_the_events_as_its_own_decoder_reads_them(shop: Shop) -> None:
    """Records that are archived while a release with another event type stands are decoded for both releases."""
    shop.sell(records(57, 60))
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    assert (
        applying.applied(shop, DEFINITIONS.replace("    cents: int\n", "    cents: int\n    note: str | None = None\n")).release
        == 2
    )
    sale = {"id": "noted", "at": "2026-03-01T00:00:00Z", "shop": "s", "cents": 1, "note": "late"}
    shop.sell({0: [json.dumps(sale).encode()]})

    write_archive.run(shop.run("archive"), shop.project)

    decoders = [Releases(shop.tables).load(number).sources["sales"] for number in (1, 2)]
    old, new = (rows_of(shop, shop.tables.events("sales", each)) for each in decoders)
    assert "note" not in old.column_names
    assert new.drop_columns("note").to_pylist() == old.to_pylist()
    assert [row["note"] for row in new.to_pylist() if row["id"] == "noted"] == ["late"]


MOVES = """

import pyarrow as pa
import pyarrow.compute as pc


def a_day_later(sales):
    moved = pc.add(sales["at"], pa.scalar(86_400_000_000, pa.duration("us")))
    return sales.set_column(sales.column_names.index("at"), "at", moved)


"""


def test_only_windows_of_prepared_times_are_rebuilt(shop: Shop) -> None:
    """Which events are of a window is known once they are prepared."""
    definitions = DEFINITIONS.replace("\n\nsales = Source(", f"{MOVES}sales = Source(")
    shop.define(definitions.replace('identity=("id",)', 'identity=("id",), prepare=a_day_later'))
    shop.sell(records(55, 200))
    write_archive.run(shop.run("archive"), shop.project)
    before = recompute.run(shop.run("recompute"), shop.project).publication
    rows = sorted(answers(shop, before, "per_hour"), key=str)
    at = datetime(2026, 3, 2, tzinfo=UTC)
    for windows in ((at, at + timedelta(hours=1)), (at - timedelta(days=2), at + timedelta(days=1))):
        live = recompute.run(
            shop.run("recompute"), shop.project, RecomputeRequest(windows=windows, views=("per_hour",))
        ).publication
        assert live.views["per_hour"].parts[-1].rows > 0
        assert sorted(answers(shop, live, "per_hour"), key=str) == rows


def test_a_recompute_reports_the_ranges_that_it_read(shop: Shop) -> None:
    """The planned range at its start, another one if it had to fold all events again; columns are those of the events."""
    settings = msgspec.structs.replace(shop.settings, lineage=LineageSettings(file="lineage.jsonl"))
    reported, tables = replace(shop, settings=settings), shop.tables

    def sell(partition: int, **fields: object) -> None:
        sale = {"id": "a", "at": "2026-03-01T00:00:00Z", "shop": "s", "cents": 100, **fields}
        shop.sell({partition: [json.dumps(sale).encode()]})
        write_archive.run(shop.run("archive"), shop.project)

    def ran(**request: Any) -> list[tuple[str, Any]]:
        """What each event of a recompute names as its input, and of it the offsets."""
        file = Path(settings.state) / "lineage.jsonl"
        file.unlink(missing_ok=True)
        recompute.run(reported.run("recompute"), shop.project, RecomputeRequest(**request))
        found = []
        for event in map(json.loads, file.read_text().splitlines()):
            (read,) = event["inputs"]
            found.append((read["name"], read["facets"].get("tandem_positions", {"ranges": None})["ranges"]))
            (made,) = [one for one in event["outputs"] if one["name"] == "per_hour"]
            columns = made["facets"]["columnLineage"]["fields"].values()
            assert {field["name"] for column in columns for field in column["inputFields"]} == {events}
        return found

    def offsets(**partitions: tuple[int, int]) -> Any:
        return {shop.topic.id: {number[1:]: [list(interval)] for number, interval in partitions.items()}}

    sell(1)
    events = tables.events("sales", Releases(tables).load(1).sources["sales"])
    assert ran() == [(events, None), (events, offsets(_1=(0, 1)))]
    sell(1, id="b")
    assert ran() == [(events, None), (events, offsets(_1=(1, 2)))]
    sell(0, cents=5)
    whole = offsets(_0=(0, 1), _1=(0, 2))
    assert ran() == [(events, None), (events, whole)], "what is new is the first of a sale that is counted already"
    assert ran(keep_cut=True) == [(events, whole), (events, whole)]
    assert ran(mode="full", raw=True) == [(tables.archive("sales"), None), (tables.archive("sales"), whole)]


def test_what_a_killed_run_left_is_gone_before_the_next_one_needs_room(shop: Shop) -> None:
    tables = shop.tables
    left = Path(tables.root, scratch.FOLDER, "left")
    left.parent.mkdir(parents=True)
    left.write_bytes(b"of a run that was killed")

    def steps() -> Iterator[RecomputeStep]:
        assert not left.exists()
        yield from ()

    assert build_all(shop.run("recompute"), None, steps()) == []  # no step asks for it
