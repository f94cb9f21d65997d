"""An incremental run equals a full one, whatever the new range of the log contains."""

import json
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import BadRequest, RecomputeRequest
from tandem.ledger.publish.publications import Publication
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Failed
from tests.batch.shop import Log, Shop, records

VIEWS = """
from datetime import datetime, timedelta

from tandem import (
    Event, Source, Table, View, calendar, count, count_distinct, count_window, first, funnel, hopping, matches,
    maximum, mean, pairs, session, sliding_count_window, total, tumbling,
)


class Sale(Event):
    id: str
    at: datetime
    shop: str
    cents: int


sales = Source(topic="TOPIC", event=Sale, event_time="at", identity=("id",))
MEASURES = {"n": count(), "cents": total("cents"), "biggest": maximum("cents"), "usual": mean("cents")}
per_hour = View(source=sales, keys={"shop": "shop"}, window=tumbling(hours=1), measures=MEASURES)
refunds = View(source=sales, where="cents < 0", measures={"n": count(), "shops": count_distinct("shop", limit=9)})
odd = View(source=sales, measures={"n": count(), "inverse": maximum("1000 // (cents % 3)")})
hops = View(source=sales, window=hopping(timedelta(hours=3), every=timedelta(hours=1)), measures={"n": count()})
days = View(source=sales, window=calendar("day", zone="Europe/Berlin"), measures=MEASURES)
sessions = View(source=sales, keys={"shop": "shop"}, window=session(minutes=3), measures=MEASURES)
sevens = View(source=sales, keys={"shop": "shop"}, window=count_window(7), measures=MEASURES)
latest = View(source=sales, window=sliding_count_window(5), measures={"cents": total("cents")})
STEPS = ("cents % 3 = 0", "cents % 3 = 1", "cents % 3 = 2")
reached = funnel(STEPS, within=timedelta(minutes=20), by="cents % 50", limit=100_000)
rises = matches("up{2,}? down", define={"up": "cents > PREV(cents)", "down": "cents % 3 = 0"}, limit=100_000)
waits = pairs(STEPS[0], STEPS[1], within=timedelta(minutes=5), limit=100_000)
paths = View(source=sales, keys={"shop": "shop"}, measures={"reached": reached, "rises": rises, "waits": waits})
sale_of = Table(sales, key={"shop": "shop"}, gone="cents % 7 = 0")
SOURCES = (sales,)
VIEWS = (per_hour, refunds, odd, hops, days, sessions, sevens, latest, paths, sale_of)
"""

Answers = dict[str, list[dict[str, Any]]]


def more(seed: int, n: int, log: Log) -> Log:
    """New sales, and copies that follow their event in its own partition, some of them with another content."""
    dice = random.Random(seed)
    fresh = records(seed, n)
    for partition in (0, 1):
        sales = [value for value in (*log[partition], *fresh[partition]) if value is not None and b'"shop": "shop' in value]
        chosen = map(json.loads, dice.sample(sales, k=min(9, len(sales))))
        copies = [json.dumps(copy | ({"cents": 7} if dice.random() < 0.5 else {})).encode() for copy in chosen]
        fresh = {**fresh, partition: [*fresh[partition], *copies]}
    return fresh


def together(log: Log, new: Log) -> Log:
    return {partition: [*log[partition], *new[partition]] for partition in (0, 1)}


def answers(shop: Shop) -> Answers:
    reader = Reader(shop.tables)
    found = {}
    for view in reader.project().every_view:
        outcome = reader.answer(view, layer="batch")
        assert not isinstance(outcome, Failed), outcome
        found[view] = outcome.rows()
    return found


def counted(live: Publication) -> tuple[object, ...]:
    return dict(live.counts), {view: dict(reasons) for view, reasons in live.rejected.items()}, dict(live.newest)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_same_rows_and_the_same_counts(shop: Shop, seed: int) -> None:
    shop.define(VIEWS)
    dice = random.Random(seed)
    log: Log = {0: [], 1: []}
    parts = set()
    for step, n in enumerate((300, dice.randrange(20, 60), dice.randrange(20, 60), dice.randrange(20, 60))):
        new = more(10 * seed + step, n, log)
        shop.sell(new)
        log = together(log, new)
        write_archive.run(shop.run("archive"), shop.project)
        added = recompute.run(shop.run("recompute"), shop.project)
        assert [done.kind for done in added.done] == ["incremental" if step else "full"]
        found = answers(shop)
        whole = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(keep_cut=True)) if step == 3 else added
        parts.add(len(added.publication.views["per_hour"].parts))
        assert len(added.publication.views["sevens"].parts) == 1
    assert counted(added.publication) == counted(whole.publication)
    assert whole.publication.cuts == added.publication.cuts
    assert whole.publication.maxima == added.publication.maxima
    assert answers(shop) == found
    assert {len(view.parts) for view in whole.publication.views.values()} == {1}
    assert max(parts) > 1

    again = recompute.run(shop.run("recompute"), shop.project)
    assert (again.done, again.publication) == ((), whole.publication)


ORDERED = ("latest", "paths", "sale_of_versions", "sevens")
"""The views whose answers depend on which of equal duplicates is counted."""


def work(run: recompute.RecomputeResult) -> list[tuple[str, tuple[str, ...], int]]:
    """What each step folded: the kind, the views, and how many events."""
    return [(done.kind, tuple(sorted(done.views)), done.events) for done in run.done]


@pytest.mark.slow
def test_an_earlier_duplicate_with_other_content_makes_the_run_full(shop: Shop) -> None:
    """In partition 0 the log has it before the one in partition 1 that is counted already."""
    shop.define(VIEWS)
    sale = {"id": "a", "at": "2026-03-01T00:00:00Z", "shop": "s", "cents": 100}
    shop.sell({0: [], 1: [json.dumps(sale).encode()]})
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)

    shop.sell({0: [json.dumps(sale).encode()], 1: []})
    write_archive.run(shop.run("archive"), shop.project)
    same = recompute.run(shop.run("recompute"), shop.project)
    unordered = tuple(view for view in same.publication.views if view not in ORDERED)
    assert work(same) == [("incremental", unordered, 0), ("full", ORDERED, 1)]

    shop.sell({0: [json.dumps(sale | {"id": "b"}).encode()], 1: []})
    shop.sell({0: [json.dumps({**sale, "id": "c", "cents": 5}).encode()], 1: [json.dumps({**sale, "id": "c"}).encode()]})
    write_archive.run(shop.run("archive"), shop.project)
    last = recompute.run(shop.run("recompute"), shop.project)
    assert [done.kind for done in last.done] == ["incremental"]
    assert [row["cents"] for row in answers(shop)["per_hour"]] == [205]
    assert (last.publication.counts["sales"].duplicates, last.publication.counts["sales"].conflicts) == (2, 1)

    shop.sell({0: [json.dumps(sale | {"id": "b", "cents": 6}).encode()], 1: [json.dumps(sale | {"id": "d"}).encode()]})
    write_archive.run(shop.run("archive"), shop.project)
    assert [done.kind for done in recompute.run(shop.run("recompute"), shop.project).done] == ["incremental"]
    shop.sell({0: [json.dumps(sale | {"id": "d", "cents": 8}).encode()], 1: []})
    write_archive.run(shop.run("archive"), shop.project)
    other = recompute.run(shop.run("recompute"), shop.project)
    assert work(other) == [("full", tuple(other.publication.views), 4)]


def test_old_records_that_are_sent_again_are_folded_only_into_views_that_see_their_order(shop: Shop) -> None:
    """They arrive in any partition, so some come before the events that are counted."""
    shop.define(VIEWS)
    log = records(11, 400)
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)
    first = recompute.run(shop.run("recompute"), shop.project).publication
    sales = [value for values in log.values() for value in values if value is not None and b'"shop": "shop' in value]
    again = random.Random(3).sample(sales, k=100)
    fresh = records(12, 30)
    sent = {0: [*again[:50], *fresh[0]], 1: [*again[50:], *fresh[1]]}
    shop.sell(sent)
    write_archive.run(shop.run("archive"), shop.project)
    heard: list[str] = []

    run = recompute.run(replace(shop.run("recompute"), say=heard.append), shop.project)

    unordered = tuple(view for view in run.publication.views if view not in ORDERED)
    whole, new = run.publication.counts["sales"].events, run.publication.counts["sales"].events - first.counts["sales"].events
    assert work(run) == [("incremental", unordered, new), ("full", ORDERED, whole)]
    assert 0 < new < whole / 10
    assert [text for text in heard if "folding all events below the cut into sevens, latest" in text]
    found = answers(shop)
    kept = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(keep_cut=True)).publication
    assert answers(shop) == found
    assert counted(run.publication) == counted(kept)
    assert (run.publication.cuts, run.publication.maxima) == (kept.cuts, kept.maxima)
    assert all(audit.figures is None or audit.figures.cause != "unexplained" for audit in run.audits)


def test_only_the_named_windows_are_rebuilt(shop: Shop) -> None:
    shop.define(VIEWS)
    log = more(5, 400, {0: [], 1: []})
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)
    before = recompute.run(shop.run("recompute"), shop.project).publication
    found = answers(shop)
    start = datetime(2026, 2, 28, 23, tzinfo=UTC)
    windows = (start, start + timedelta(days=1))

    done = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(windows=windows))

    assert [(one.kind, one.views) for one in done.done] == [("windows", ("per_hour", "hops", "days"))]
    assert answers(shop) == found
    assert counted(done.publication) == counted(before)
    assert [part.windows for part in done.publication.views["days"].parts] == [None, windows]
    added = done.publication.views["per_hour"].parts[1]
    assert 0 < added.rows < before.views["per_hour"].rows

    long_before = (start - timedelta(days=60), start - timedelta(days=59))
    done = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(windows=long_before))
    assert [(one.kind, one.events) for one in done.done] == [("windows", 0)]
    assert answers(shop) == found
    assert counted(done.publication) == counted(before)

    new = more(6, 50, log)
    shop.sell(new)
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    found = answers(shop)
    recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(views=("days", "per_hour")))
    assert answers(shop) == found
    with pytest.raises(BadRequest, match="'sessions' has window session"):
        recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(windows=windows, views=("sessions",)))
    half_past = RecomputeRequest(windows=(windows[0] + timedelta(minutes=30), windows[1]), views=("per_hour",))
    with pytest.raises(BadRequest, match=r"begins at 2026-02-28T23:30.*`--from 2026-02-28T23:00:00Z --to 2026-03-01T23:00:00Z`"):
        recompute.run(shop.run("recompute"), shop.project, half_past)


def test_a_utc_day_rebuilds_the_whole_windows_that_it_touches(shop: Shop) -> None:
    """Local days, weeks and months, which a UTC day cuts: their states are gone, and come back whole."""
    months = 'months = View(source=sales, window=calendar("month", zone="Europe/Berlin"), measures={"n": count()})\n'
    weeks = "weeks = View(source=sales, window=tumbling(days=7), measures=MEASURES)\n"
    ever = 'ever = View(source=sales, measures={"n": count()})\n'
    shop.define(
        VIEWS.replace("SOURCES =", months + weeks + ever + "SOURCES =").replace("sale_of)\n", "sale_of, months, weeks, ever)\n")
    )
    shop.sell(more(5, 400, {0: [], 1: []}))
    write_archive.run(shop.run("archive"), shop.project)
    before = recompute.run(shop.run("recompute"), shop.project).publication
    found = answers(shop)
    day = datetime(2026, 3, 1, tzinfo=UTC)

    run = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(windows=(day, day + timedelta(days=1))))

    assert {view: done.windows for done in run.done for view in done.views} == {
        **dict.fromkeys(("per_hour", "hops"), (day, day + timedelta(days=1))),
        "days": (datetime(2026, 2, 28, 23, tzinfo=UTC), datetime(2026, 3, 2, 23, tzinfo=UTC)),
        "months": (datetime(2026, 2, 28, 23, tzinfo=UTC), datetime(2026, 3, 31, 22, tzinfo=UTC)),
        "weeks": (datetime(2026, 2, 26, tzinfo=UTC), datetime(2026, 3, 5, tzinfo=UTC)),
    }
    assert run.not_rebuilt == ("refunds", "odd", "sessions", "sevens", "latest", "paths", "sale_of_versions", "ever")
    assert answers(shop) == found
    assert counted(run.publication) == counted(before)
    parts = {view: one.parts for view, one in run.publication.views.items()}
    assert {view for view, of in parts.items() if len(of) == 2} == {"per_hour", "hops", "days", "months", "weeks"}
    assert parts["weeks"][1].rows == 1
    assert all(audit.figures is not None and not audit.figures.differ for audit in run.audits)
    assert {audit.view for audit in run.audits} == {"per_hour", "hops", "days", "months", "weeks"}
