"""An erasure of records of dated views, of views that keep windows for some time, and of sources with a start."""

from datetime import UTC, datetime, timedelta

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.erase import find_records
from tandem.batch.erase.prove import prove
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.batch.release.declared_starts import resolve_starts
from tandem.cli.__main__ import main
from tandem.ledger.publish.publications import Publication
from tandem.views.project.project import Project
from tests.batch.erase.test_erased_records_are_gone import selecting, without
from tests.batch.release.test_apply import promoted, recomputed
from tests.batch.release.test_apply_from_a_time import LARGER, SECOND, applied, assert_rows, sold
from tests.batch.release.test_declared_starts import starting
from tests.batch.release.test_views_that_keep import keeping
from tests.batch.shop import DEFINITIONS, Log, Shop, answers, assert_true, records, together, truth


def recomputes(shop: Shop) -> list[Publication]:
    """The publications of an incremental recompute, and of a full recompute that decodes the archive again."""
    requests = (RecomputeRequest(), RecomputeRequest(mode="full", raw=True))
    return [recompute.run(shop.run("recompute"), shop.project, request).publication for request in requests]


def test_of_a_dated_view_each_window_keeps_its_definition(shop: Shop) -> None:
    log = records(91, 600)
    sold(shop, log)
    recomputed(shop)
    applied(shop, LARGER, SECOND)
    promoted(shop)
    (done,) = shop.forget(selecting("shop = 'shop 1'"))
    left = without(log, lambda sale: sale["shop"] == "shop 1")
    assert_rows(shop, done.publication, left, (SECOND, LARGER))
    assert prove(shop.tables, done.erasure, ("shop 1",)).whole
    more = records(92, 200, known=left[0])
    sold(shop, more)
    for live in recomputes(shop):
        assert_rows(shop, live, together(left, more), (SECOND, LARGER))


@pytest.mark.parametrize("condition", ["shop = 'shop 1'", "\"at\" >= TIMESTAMPTZ '2026-03-01 03:00:00+00'"])
def test_a_window_that_has_left_stays_away_also_without_the_events_after_it(shop: Shop, condition: str) -> None:
    log = records(93, 900)
    shop.define(keeping(DEFINITIONS, 3))
    sold(shop, log)
    recomputed(shop)
    (done,) = shop.forget(selecting(condition))
    late = datetime(2026, 3, 1, 3, tzinfo=UTC)
    left = without(
        log, lambda sale: sale["shop"] == "shop 1" if "shop" in condition else datetime.fromisoformat(sale["at"]) >= late
    )
    first = max(datetime.fromisoformat(hour) for _, hour in truth(log).per_hour) - timedelta(hours=3)
    expected = {key: row[0] for key, row in truth(left).per_hour.items() if datetime.fromisoformat(key[1]) >= first}
    assert expected
    for live in (done.publication, *recomputes(shop)):
        assert {(row["shop"], row["window_start"]): row["n"] for row in answers(shop, live, "per_hour")} == expected
    assert not any(prove(shop.tables, done.erasure, ()).rows.values())


def test_records_before_the_start_are_erased_by_position(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """A condition selects none of them, which the plan says."""
    log, firsts = records(94, 120), {0: 20, 1: 15}
    shop.define(starting("{0: 20, 1: 15}"))
    shop.sell(log)

    def resolved() -> Project:
        return resolve_starts(shop.project(), shop.tables, lambda: shop.connection, now=datetime(2027, 1, 1, tzinfo=UTC))

    write_archive.run(shop.run("archive"), resolved)
    recompute.run(shop.run("recompute"), resolved)

    def erased(log: Log) -> Log:
        """The log from the start on without a shop."""
        after = {number: values[firsts[number] :] for number, values in log.items()}
        return without(after, lambda sale: sale["shop"] == "shop 1")

    arguments = ["forget", "sales", "--project", str(shop.folder), "--where", "shop = 'shop 1'"]
    assert main(arguments) == 0
    assert "records before the start of sales have no event to select" in capsys.readouterr().out
    (done,) = shop.forget(selecting("shop = 'shop 1'"))
    assert done.planned is not None
    assert all(start >= firsts[number] for (_, number), spans in done.planned.records.ranges.intervals for start, _ in spans)
    assert_true(shop, done.publication, erased(log))
    before = done.publication.counts["sales"]
    assert before.skipped == sum(firsts.values())
    (done,) = shop.forget(lambda source: find_records.of_ids(source, [f"{shop.topic.id}/0:3"]))
    assert_true(shop, done.publication, erased(log))
    after = done.publication.counts["sales"]
    assert (after.skipped, after.erased) == (before.skipped - 1, before.erased + 1)
    assert not any(prove(shop.tables, done.erasure, ()).rows.values())
