"""Archive, events and quarantine lose the records that their source keeps no longer, and no answer changes."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from tandem.batch.erase import find_records
from tandem.batch.erase.find_records import NotForgotten
from tandem.batch.maintain import maintain
from tandem.batch.maintain.expire_records import at_a_file, start_of, staying_files
from tandem.batch.maintain.remove_rows import log_tables, remove_rows
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import BadRequest, RecomputeRequest
from tandem.batch.release import apply
from tandem.batch.release.release_plan import Terms
from tandem.batch.transfer import export_archive, import_archive
from tandem.cli.__main__ import main
from tandem.infra.settings import KeepSettings
from tandem.ledger.files.file_ranges import FileRange, table_ranges
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.erasures import Erasure, Erasures, UnfinishedErasure
from tandem.ledger.log.history import RecordExpiry, SourceHistory
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.publications import Publication
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tests.batch.release.test_apply import applied, promoted, recomputed
from tests.batch.release.test_apply_from_a_time import sold
from tests.batch.release.test_views_that_keep import keeping, kept
from tests.batch.shop import DEFINITIONS, Log, MemoryShop, Shop, answers, records, together, truth
from tests.documented import Command, steps

PER_HOUR = DEFINITIONS.partition("refunds =")[0]
EXPIRING = PER_HOUR.replace('identity=("id",)', 'identity=("id",), keep=timedelta(microseconds=1)')
"""Sales whose source keeps no record for long, and no view of all time."""
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
FIRST, SECOND = records(61, 400), records(62, 1800)
"""Sales of 2 hours, then those of 10 hours; the second have copies of none of the first."""


def fill(shop: Shop, definitions: str = keeping(EXPIRING, 3)) -> Shop:
    """The shop with both logs archived, each in files of its own, and published long ago; one publication is retained."""
    shop.define(definitions)
    with (shop.folder / "tandem.toml").open("a") as file:
        file.write("[keep]\npublications = 1\ndays = 0\nfile_hours = 1\n")
    for log in (FIRST, SECOND):
        sold(shop, log)
        recompute.run(replace(shop.run("recompute"), now=lambda: LONG_AGO), shop.project)
    return replace(shop, settings=msgspec.structs.replace(shop.settings, keep=KeepSettings(publications=1, days=0, file_hours=1)))


def history(shop: Shop, publication: int | None = None) -> SourceHistory | None:
    """The history that an answer names."""
    return given(Reader(shop.tables, publication).answer("per_hour", layer="batch")).provenance.history


def maintain_tables(shop: Shop) -> list[Erasure]:
    """Maintain the tables; what has expired until then."""
    maintain.maintain_tables(shop.tables, shop.settings, datetime.now(UTC))
    return Erasures(shop.tables).of("sales")


def rows(shop: Shop) -> dict[str, int]:
    """The number of rows of each table of the log."""
    return {
        shop.tables.name(address): sum(file.rows for file in table_ranges(shop.tables, address, where))
        for address, where in log_tables(shop.tables, "sales")
    }


def assert_kept(shop: Shop, live: Publication, log: Log, hours: int = 3) -> None:
    kept(shop, answers(shop, live, "per_hour"), {number: list(values) for number, values in log.items()}, hours)


def test_records_leave_with_the_windows_and_answers_stay(shop: Shop) -> None:
    shop = fill(shop)
    before, earlier = rows(shop), given(Reader(shop.tables).answer("per_hour")).provenance.publication
    (expiry,) = maintain_tables(shop)
    first = truth(FIRST)
    assert (expiry.stage, expiry.ranges.length) == ("expired", sum(map(len, FIRST.values())))
    assert expiry.until == max(datetime.fromisoformat(value["at"]) for value in sales_of(FIRST))
    left = rows(shop)
    assert {name: before[name] - left[name] for name in left} == {
        name: first.quarantined if "quarantine" in name else expiry.ranges.length - first.quarantined * ("events" in name)
        for name in left
    }
    assert maintain_tables(shop) == [expiry], "the same records leave once"
    assert history(shop) is None, "the publication is older"
    whole = together(FIRST, SECOND)
    for request in (RecomputeRequest(keep_cut=True), RecomputeRequest(mode="full"), RecomputeRequest(mode="full", raw=True)):
        live = recompute.run(shop.run("recompute"), shop.project, request).publication
        assert_kept(shop, live, whole)
    counts = live.counts["sales"]
    assert (counts.erased, counts.offsets) == (expiry.ranges.length, sum(map(len, whole.values())))
    gone = RecordExpiry(expiry.ranges.length, expiry.until, timedelta(microseconds=1))
    assert history(shop) == SourceHistory(expiry=gone)
    assert history(shop, earlier) is None, "an answer of the past names what had expired then"
    copies = {0: FIRST[0][:50], 1: records(63, 300, known=SECOND[0])[1]}
    sold(shop, copies)
    assert_kept(shop, recomputed(shop), together(whole, copies))
    assert_kept(shop, recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full")).publication, whole)


def test_the_command_prints_what_the_page_shows(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    if not isinstance(shop, MemoryShop):
        pytest.skip("this process holds the locks")
    shop = fill(shop)
    (step,) = (step for step in steps("keep-what-matters.md") if isinstance(step, Command) and "maintain" in step.line)
    step.show(capsys, "--project", str(shop.folder))
    recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(keep_cut=True))
    assert main(["query", "per_hour", "--project", str(shop.folder)]) == 0
    assert "offsets of sales expired by its keep of" in capsys.readouterr().out
    shop.define(EXPIRING.replace("import datetime", "import datetime, timedelta"))
    assert main(["check", "--project", str(shop.folder)]) != 0
    said = "".join(capsys.readouterr())
    assert "view 'per_hour' has no keep, so it needs all records, but source sales keeps them for" in said


def test_status_prints_what_the_page_shows(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    if isinstance(shop, MemoryShop):
        pytest.skip("status asks a broker")
    shop = fill(shop)
    maintain_tables(shop)
    (step,) = (step for step in steps("keep-what-matters.md") if isinstance(step, Command) and "status" in step.line)
    step.show(capsys, "--project", str(shop.folder), code=None)


def sales_of(log: Log) -> list[dict[str, str]]:
    """The sales of a log that are well formed."""
    return [msgspec.json.decode(value) for values in log.values() for value in values if value and value.startswith(b'{"id": "6')]


def test_no_definition_counts_windows_of_which_records_are_gone(shop: Shop) -> None:
    shop = fill(shop)
    (expiry,) = maintain_tables(shop)
    assert expiry.until is not None
    refused = "view 'per_hour' would count .*, but records of source sales with events until 2026-03-01T0.* have expired"
    for definitions in (keeping(EXPIRING, 9), DEFINITIONS):
        shop.define(definitions)
        with pytest.raises(BadRequest, match=refused):
            apply.run(shop.run("apply"), shop.project, Terms())
    assert applied(shop, keeping(EXPIRING, 5)).status == {"per_hour": "changed"}
    whole = together(FIRST, SECOND)
    assert_kept(shop, promoted(shop), whole, 5)
    other = keeping(EXPIRING, 5).replace("    cents: int\n", "    cents: int\n    note: str | None = None\n")
    applied(shop, other.replace('"biggest": maximum("cents")', '"biggest": maximum("cents + 1")'))
    assert_kept(shop, promoted(shop), whole, 5)


def test_a_release_that_may_need_them_holds_all_records(shop: Shop) -> None:
    """Also one whose views keep more, and one that was live before and has no keep."""
    shop = fill(shop, keeping(PER_HOUR, 12))
    applied(shop, keeping(EXPIRING, 3))
    promoted(shop)
    assert maintain_tables(shop) == []
    assert sum(rows(shop).values()) > 2 * sum(map(len, SECOND.values()))


def test_a_killed_run_is_finished_by_the_next_one(shop: Shop, tmp_path: Path) -> None:
    """Wherever it was killed, and nothing reads a part of the records meanwhile."""
    if not isinstance(shop, MemoryShop):
        pytest.skip("its folder is copied")
    shop = fill(shop)
    shutil.copytree(shop.settings.state, tmp_path / "before")
    (whole,) = maintain_tables(shop)
    left = rows(shop)
    for removed in range(len(left) + 1):
        shutil.rmtree(shop.settings.state)
        shutil.copytree(tmp_path / "before", shop.settings.state)
        at, tables = datetime.now(UTC), shop.tables
        begun = Erasures(tables).intend("sales", whole.ranges, by="test", at=at, stage="expiring", until=whole.until)
        assert begun is not None
        for address, where in list(log_tables(tables, "sales"))[:removed]:
            remove_rows(tables, address, where, begun.ranges, at=at)
        with pytest.raises(UnfinishedErasure, match="run `tandem maintain` first"):
            recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full"))
        with pytest.raises(NotForgotten, match="was ended while it removed records"):
            shop.forget(lambda source: find_records.where(source, "shop = 'shop 1'"))
        (done,) = maintain_tables(shop)
        assert (done.stage, done.ranges, done.until) == ("expired", whole.ranges, whole.until)
        assert rows(shop) == left
        live = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full")).publication
        assert_kept(shop, live, together(FIRST, SECOND))


def test_an_import_brings_nothing_back_and_an_export_says_what_is_gone(shop: Shop, tmp_path: Path) -> None:
    shop = fill(shop)
    (expiry,) = maintain_tables(shop)
    export_archive.run(shop.tables, ["sales"], tmp_path / "exported", say=lambda _: None)
    elsewhere = replace(shop, settings=msgspec.structs.replace(shop.settings, state=str(tmp_path / "elsewhere")))
    (done,) = import_archive.run(
        elsewhere.settings, tmp_path / "exported", ["sales"], now=lambda: datetime.now(UTC), say=lambda _: None
    )
    assert done.records == sum(map(len, SECOND.values()))
    (there,) = Erasures(elsewhere.tables).of("sales")
    assert (there.stage, there.ranges, there.until) == ("expired", expiry.ranges, expiry.until)
    assert ArchiveLedger(elsewhere.tables, "sales").archived() == ArchiveLedger(shop.tables, "sales").archived()


def file(low: int, high: int, hour: int | None, *, partitions: tuple[int, int] = (0, 0)) -> FileRange:
    time = None if hour is None else datetime(2026, 3, 1, hour, tzinfo=UTC)
    return FileRange(f"{low}", 10, ("T", "T"), partitions, (low, high), times=None if time is None else (time, time))


def test_what_leaves_is_before_all_that_stays() -> None:
    """Files of unknown times stay, and a file that goes on above the place stays whole."""
    files = [file(0, 10, 1), file(10, 20, 5), file(20, 30, 2), file(0, 30, 1, partitions=(1, 1))]
    below = Position.of({("T", 0): 30, ("T", 1): 30, ("T", 2): 5})
    since = datetime(2026, 3, 1, 4, tzinfo=UTC)
    assert staying_files(files, since) == [files[1]]
    assert start_of([files[1]], below) == Position.of({("T", 0): 10, ("T", 1): 30, ("T", 2): 5})
    assert staying_files([file(0, 10, None)], since) == [file(0, 10, None)]
    assert start_of([file(4, 10, 5, partitions=(0, 2))], below) == Position.of({("T", 0): 4, ("T", 1): 4, ("T", 2): 4})
    assert at_a_file(files, Position.of({("T", 0): 15, ("T", 1): 30})) == Position.of({("T", 0): 10, ("T", 1): 30})
