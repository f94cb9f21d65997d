"""After an erasure the answers are those of the log without the records, and no file has them."""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tandem.batch.archive import write_archive
from tandem.batch.erase import erase, find_records
from tandem.batch.erase.find_records import RecordSelection
from tandem.batch.erase.prove import prove
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.batch.transfer import export_archive, import_archive
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.promotion import NotReady
from tandem.ledger.publish.standing import StandingReleases
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime_writer import Writer
from tandem.views.arrow.arrays import to_ipc
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import Source
from tests.batch.release.test_apply import CHANGED, applied
from tests.batch.shop import DEFINITIONS, MALFORMED, Log, Shop, assert_true, records, together
from tests.killed import Killed
from tests.samples import cases


def filled(shop: Shop, seed: int, n: int) -> Log:
    """A shop with two archive runs and two publications."""
    first = records(seed, n)
    shop.sell(first)
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    more = records(seed + 1, n // 2, known=first[0])
    shop.sell(more)
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    return together(first, more)


def selecting(text: str) -> Callable[[Source], RecordSelection]:
    return lambda source: find_records.where(source, text)


def without(log: Log, gone: Callable[[Mapping[str, Any]], bool]) -> Log:
    """The log without the events for which `gone` holds."""
    return {
        partition: [value for value in values if value in MALFORMED or not gone(json.loads(value or b""))]
        for partition, values in log.items()
    }


@pytest.mark.each_run("*-0")
@pytest.mark.parametrize("seed", range(cases(2, bug=4, longer=4)))
def test_answers_are_those_of_the_log_without_the_records(shop: Shop, seed: int) -> None:
    """Also of a second erasure, of a later incremental recompute, and of a recompute that decodes the archive again."""
    dice = random.Random(seed)
    log = filled(shop, 100 + 10 * seed, 120)
    name, cents = f"shop {dice.randrange(4)}", dice.randrange(-50, 200)
    conditions: list[tuple[str, Callable[[Mapping[str, Any]], bool]]] = [
        (f"shop = '{name}'", lambda sale: sale["shop"] == name),
        (f"cents < {cents}", lambda sale: sale["cents"] < cents),
    ]
    dice.shuffle(conditions)
    left = log
    for text, gone in conditions:
        (done,) = shop.forget(selecting(text))
        left = without(left, gone)
        assert done.planned is not None
        assert (done.erasure.stage, done.planned.records.others) == ("erased", 0)
        assert_true(shop, done.publication, left)
        assert not any(prove(shop.tables, done.erasure, ()).rows.values())
    erased = sum(map(len, log.values())) - sum(map(len, left.values()))
    assert done.publication.counts["sales"].erased == erased
    assert shop.forget(selecting(conditions[0][0])) == []
    more = records(101 + 10 * seed + 5, 30)
    shop.sell(more)
    write_archive.run(shop.run("archive"), shop.project)
    assert_true(shop, recompute.run(shop.run("recompute"), shop.project).publication, together(left, more))
    again = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full", raw=True)).publication
    assert_true(shop, again, together(left, more))
    assert again.counts["sales"].erased == erased
    assert again.counts["sales"].holes == 0


def test_no_file_has_a_text_of_the_records(shop: Shop) -> None:
    """Neither a table nor a Delta log, nor the quarantine of a record that decoded to nothing; the plan changes nothing."""
    log = filled(shop, 200, 80)
    reject = b'{"id": "secret-visitor", "at": "never"}'
    sale = {"id": "secret-visitor", "at": "2026-03-01T00:00:01Z", "shop": "hidden corner", "cents": 10**9}
    shop.sell({0: [reject, json.dumps(sale).encode()], 1: [json.dumps({**sale, "cents": 3}).encode()]})
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    applied(shop, CHANGED)
    batch = shop.run("forget")
    place = len(log[0])

    def select(source: Source) -> RecordSelection:
        return find_records.of_ids(source, ["secret-visitor", f"{shop.topic.id}/0:{place}"])

    texts = ("secret-visitor", "hidden corner", "shop 1")
    planned = erase.plan(batch.settings, batch.tables, batch.standing, "sales", select)
    assert (planned.records.ranges.length, planned.records.events, planned.releases) == (3, 2, (2,))
    assert Erasures(shop.tables).every() == ()
    (done,) = shop.forget(select, batch)
    assert_true(shop, done.publication, log)
    found = prove(shop.tables, done.erasure, texts[:2])
    assert (found.whole, dict(found.hits)) == (True, {})
    assert prove(shop.tables, done.erasure, texts).hits, "the search finds texts of records that are left"
    with pytest.raises(NotReady, match="publication 2 counts records that erasure sales-erasure-1 has erased, and is retired"):
        shop.roll_back(2)
    assert applied(shop, CHANGED).release > 1


def test_a_quarantine_row_is_found(shop: Shop) -> None:
    """The proof counts a row that is left, and names the file with its text."""
    log = filled(shop, 300, 30)
    shop.sell({0: [b'{"id": "secret-visitor", "at": "never"}']})
    write_archive.run(shop.run("archive"), shop.project)
    place = len(log[0])
    erasure = Erasures(shop.tables).intend(
        "sales", Ranges.of({(shop.topic.id, 0): (place, place + 1)}), by="test", at=datetime.now(UTC)
    )
    assert erasure is not None
    found = prove(shop.tables, erasure, ("secret-visitor",))
    assert sorted(found.rows.values()) == [0, 1, 1]
    assert sum("quarantine" in file or "archive" in file for file in found.hits) == 2
    assert not found.whole


@pytest.mark.slow
def test_a_proof_reads_records_that_only_begin_like_an_arrow_stream(shop: Shop) -> None:
    """A producer can write any bytes, and a condition may name the empty text, which every file has."""
    filled(shop, 800, 30)
    shop.sell({0: [b"\xff\xff\xff\xff\x10\x00\x00\x00" + b"x" * 16]})
    write_archive.run(shop.run("archive"), shop.project)
    (done,) = shop.forget(selecting("shop = 'shop 1'"))
    sales = shop.project().sources["sales"]
    texts = find_records.where(sales, "id = '' OR id = 'nobody'").texts.searched
    assert texts == ("nobody",)
    assert prove(shop.tables, done.erasure, texts).whole


def test_a_killed_erasure_is_finished_by_the_next_run(shop: Shop) -> None:
    """Wherever it was killed: before each look at the clock, which is before each step and each commit."""
    log = filled(shop, 400, 60)
    left, kills = log, 0
    for number in range(4):
        text, name = f"shop = 'shop {number}'", f"shop {number}"
        left = without(left, lambda sale, name=name: sale["shop"] == name)
        for allowed in range(number, 40, cases(8, bug=4, longer=4)):
            batch = shop.run("forget")
            ticks = iter(range(allowed))

            def now(ticks: Iterator[int] = ticks) -> datetime:
                if next(ticks, None) is None:
                    raise Killed
                return datetime.now(UTC)

            try:
                shop.forget(selecting(text), replace(batch, now=now))
            except Killed:
                kills += 1
            else:
                break
        (*_, done) = Erasures(shop.tables).of("sales")
        live = StandingReleases(shop.tables).publications.latest()
        assert live is not None
        assert_true(shop, live, left)
        assert done.stage == "erased"
        assert prove(shop.tables, done, (name,)).whole
    assert kills > 6


def test_an_import_brings_nothing_back_and_an_export_takes_the_positions_along(shop: Shop, tmp_path: Path) -> None:
    """Of an export made before the erasure the records are left out; elsewhere the positions count as erased, not as holes."""
    log = filled(shop, 500, 60)

    def imported(at: Shop, folder: Path) -> int:
        (done,) = import_archive.run(at.settings, folder, ["sales"], now=lambda: datetime.now(UTC), say=lambda _: None)
        return done.records

    export_archive.run(shop.tables, ["sales"], tmp_path / "before", say=lambda _: None)
    (done,) = shop.forget(selecting("shop = 'shop 1'"))
    left = without(log, lambda sale: sale["shop"] == "shop 1")
    assert imported(shop, tmp_path / "before") == 0
    assert not any(prove(shop.tables, done.erasure, ()).rows.values())
    export_archive.run(shop.tables, ["sales"], tmp_path / "after", say=lambda _: None)
    elsewhere = replace(shop, settings=msgspec.structs.replace(shop.settings, state=str(tmp_path / "elsewhere")))
    assert imported(elsewhere, tmp_path / "after") == sum(map(len, left.values()))
    assert imported(elsewhere, tmp_path / "after") == 0
    write_archive.run(elsewhere.run("archive"), elsewhere.project)
    live = recompute.run(elsewhere.run("recompute"), elsewhere.project).publication
    assert_true(elsewhere, live, left)
    counts = live.counts["sales"]
    assert (counts.erased, counts.holes) == (done.erasure.ranges.length, 0)
    assert imported(elsewhere, tmp_path / "before") == 0


LISTS = DEFINITIONS.replace('identity=("id",)', 'identity=("id",), max_events_per_record=3')


def test_a_record_of_several_events_goes_whole(shop: Shop) -> None:
    """The plan counts its other events, before anything is erased; they go with it."""
    shop.define(LISTS)
    sales = [
        {"id": str(number), "at": "2026-03-01T00:00:00Z", "shop": f"shop {number % 3}", "cents": number} for number in range(9)
    ]
    shop.sell({0: [json.dumps(sales[start : start + 3]).encode() for start in (0, 3, 6)], 1: [json.dumps(sales[1:2]).encode()]})
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    batch = shop.run("forget")
    found = erase.plan(batch.settings, batch.tables, batch.standing, "sales", selecting("cents = 4 OR cents = 1")).records
    assert (found.ranges.length, found.events, found.others) == (3, 3, 4)
    (done,) = shop.forget(selecting("cents = 4 OR cents = 1"), batch)
    counts = done.publication.counts["sales"]
    assert (counts.events, counts.erased, counts.holes) == (3, 3, 0)


def test_realtime_commits_below_the_cut_are_deleted(shop: Shop) -> None:
    """A partial with a text of a record goes, and the speed layer, which is not fenced, continues where it was."""
    sale = {"id": "secret-visitor", "at": "2026-03-01T00:00:01Z", "shop": "s", "cents": 1}
    shop.sell({0: [json.dumps(sale).encode()], 1: records(700, 20)[1]})
    write_archive.run(shop.run("archive"), shop.project)
    end, at = ArchiveLedger(shop.tables, "sales").archived(), datetime.now(UTC)
    writer = Writer.claim(shop.tables, 1, "sales", by="test", at=at)
    partial = to_ipc(pa.table({"id": ["secret-visitor"]}))
    writer.append(Commit(LOG_START, end, writer.epoch, "fold", partials={"view": partial}, at=at))
    batch = shop.run("forget")
    (done,) = shop.forget(selecting("id = 'secret-visitor'"), batch)
    assert prove(shop.tables, done.erasure, ("secret-visitor",)).whole
    assert done.publication.cut("sales") == end
    beyond = Position.of({**end, (shop.topic.id, 0): end[shop.topic.id, 0] + 1})
    writer.append(Commit(end, beyond, writer.epoch, "fold", partials={"view": partial}, at=at))
    assert Writer.claim(shop.tables, 1, "sales", by="test", at=at).end == beyond
    found = prove(shop.tables, done.erasure, ("secret-visitor",)).hits
    assert all(file.startswith("realtime/1/sales/") for file in found), "what lies above the cut is another record's"
    assert found
