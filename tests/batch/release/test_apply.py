"""An applied release answers by its definitions, shares unchanged views, and is promoted, rolled back and retired."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.maintain.maintain import drop_unneeded
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.batch.release import apply
from tandem.batch.release.apply import Applied
from tandem.batch.release.release_plan import Terms
from tandem.ledger.publish import promotion
from tandem.ledger.publish.completeness import ShorterHistory
from tandem.ledger.publish.diffs import ReleaseDiffs
from tandem.ledger.publish.if_promoted import IfPromoted
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import StandingReleases
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.serving.read.release_comparison import ReleaseComparison
from tandem.views.errors import DefinitionError
from tests.batch.shop import DEFINITIONS, MALFORMED, Log, Shop, answers, assert_true, records, together, truth

CHANGED = DEFINITIONS.replace("cents < 0", "cents < -10").replace('"usual": mean("cents")', '"usual": mean("cents + 1")')
"""Other refunds, and in every hour another mean; what else there is stays."""
GAINED = DEFINITIONS.replace("maximum, mean,", "derived, maximum, mean, minimum,").replace(
    '"usual": mean("cents")', '"usual": mean("cents"), "least": minimum("cents"), "spread": derived("biggest - least")'
)
"""More measures in every hour."""
FAILING = DEFINITIONS.replace('"usual": mean("cents")', '"usual": mean("cents"), "root": total("sqrt(cents)")')
"""A measure whose expression fails for what is below 0, so that no measure counts these events."""
ADDED = DEFINITIONS.replace(
    "VIEWS = (per_hour, refunds)",
    'per_shop = View(source=sales, keys={"shop": "shop"}, measures={"n": count()})\nVIEWS = (per_hour, refunds, per_shop)',
)

RENAMED = (
    DEFINITIONS.replace("refunds", "returns")
    .replace("cents < 0", "( cents  <  0 ) -- given back")
    .replace(
        'measures={"n": count(), "sales": approx_count_distinct("id")}',
        'measures={"sales": approx_count_distinct("id"), "n": count()}, doc="Given back."',
    )
    .replace("class Sale(Event):", 'class Sale(Event):\n    """One sale."""\n')
    .replace("    shop: str\n    cents: int\n", "    cents: int\n    shop: str\n")
)
"""A view under another name, and whatever else means nothing: formatting, order, texts."""


def applied(shop: Shop, definitions: str, terms: Terms | None = None, *, why: str = "") -> Applied:
    shop.define(definitions)
    return apply.run(shop.run("apply"), shop.project, terms or Terms(max_lag=0), why=why)


def folded_again(shop: Shop, view: str) -> Publication:
    """The view of the release that is live, folded whole at the cut that it has."""
    return recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full", views=(view,))).publication


def recomputed(shop: Shop) -> Publication:
    return recompute.run(shop.run("recompute"), shop.project).publication


def promoted(shop: Shop, release: int | None = None) -> Publication:
    return promotion.promote(StandingReleases(shop.tables), release, days=7, max_lag=0, by="test", at=datetime.now(UTC))


def live(shop: Shop) -> Publication:
    found = Publications(shop.tables).latest()
    assert found is not None
    return found


def refunds(log: Log, below: int) -> int:
    return truth(log, below=below).refunds


def counted(shop: Shop, view: str = "refunds") -> int:
    """What a reader is answered."""
    reader = Reader(shop.tables)
    reader.refresh()
    return sum(row["n"] for row in given(reader.answer(view)).rows())


def sale(identity: str, weather: str) -> bytes:
    return f'{{"id": "{identity}", "at": "2026-03-01T01:00:00Z", "shop": "north", "cents": -5, "weather": {weather}}}'.encode()


def test_a_changed_view_is_folded_an_unchanged_one_is_shared_and_both_are_compared(shop: Shop) -> None:
    log = records(31, 400)
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)
    before = recomputed(shop)

    done = applied(shop, CHANGED.replace(", measures={", ', doc="By the hour.", measures={'))
    assert (done.release, done.status) == (2, {"per_hour": "changed", "refunds": "changed"})
    assert live(shop) == before
    state = StandingReleases(shop.tables).state_of(2)
    assert state is not None
    assert state.cut("sales") == before.cut("sales")
    assert sum(row["n"] for row in answers(shop, state, "refunds")) == refunds(log, -10)

    assert done.diff is not None
    old, new = ({(row["shop"], row["window_start"]): row for row in answers(shop, one, "per_hour")} for one in (before, state))
    figures = done.diff.views["per_hour"]
    assert (figures["matched"], figures["changed"], figures["only_old"]) == (len(old), len(old), 0)
    assert {key: row["usual"] for key, row in new.items()} == {key: row["usual"] + 1 for key, row in old.items()}
    assert {name: one["differ"] for name, one in figures["measures"].items()} == {
        "n": 0, "cents": 0, "biggest": 0, "usual": len(old),
    }  # fmt: skip
    assert figures["measures"]["usual"]["largest"] == pytest.approx(1)
    assert ReleaseDiffs(shop.tables).of_release(2) == done.diff

    done = applied(shop, ADDED)
    assert (done.release, done.status) == (3, {"per_hour": "unchanged", "refunds": "unchanged", "per_shop": "added"})
    state, gone = StandingReleases(shop.tables).state_of(3), StandingReleases(shop.tables).newest(2)
    assert state is not None
    assert gone is not None
    assert (gone.stage, gone.state.why) == ("retired", "release 3 replaces it")
    assert {name: view for name, view in state.views.items() if name != "per_shop"} == dict(before.views)
    assert (state.counts, state.maxima, state.watermarks) == (before.counts, before.maxima, before.watermarks)
    assert sum(row["n"] for row in answers(shop, state, "per_shop")) == before.counts["sales"].events
    # The same again is there already; what is live is nothing to apply.
    assert applied(shop, ADDED).release == 3
    assert [one.stage for one in StandingReleases(shop.tables).records() if one.state.release == 3] == ["applied", "built"]
    assert applied(shop, DEFINITIONS).release is None
    with pytest.raises(DefinitionError, match=r"Sale\.cents is removed"):
        applied(shop, DEFINITIONS.replace("cents", "money"))


@pytest.mark.parametrize("definitions", [GAINED, FAILING], ids=["alone", "failing"])
def test_only_new_measures_are_folded_if_they_count_the_same_events(shop: Shop, definitions: str) -> None:
    alone = definitions == GAINED
    for log in (records(38, 300), records(39, 40)):
        shop.sell(log)
        write_archive.run(shop.run("archive"), shop.project)
        before = recomputed(shop)
    said: list[str] = []
    shop.define(definitions)
    apply.run(replace(shop.run("apply"), say=said.append), shop.project, Terms(max_lag=0))
    assert any("folding only the new measures" in line for line in said)
    assert any("than before; folding all measures" in line for line in said) is not alone
    state = StandingReleases(shop.tables).state_of(2)
    assert state is not None
    assert state.cuts == before.cuts
    assert (state.rejected["per_hour"] == {}) is alone
    promoted(shop)
    whole = folded_again(shop, "per_hour")
    assert whole.views["per_hour"].version > state.views["per_hour"].version
    by_row = [sorted(answers(shop, each, "per_hour"), key=str) for each in (state, whole)]
    assert by_row[0] == by_row[1]
    assert (whole.rejected, whole.views["per_hour"].rows) == (state.rejected, state.views["per_hour"].rows)


def test_a_release_is_promoted_rolled_back_resumed_and_retired(shop: Shop) -> None:
    first, second, third = records(32, 300), records(33, 100), records(34, 100)
    shop.sell(first)
    write_archive.run(shop.run("archive"), shop.project)
    recomputed(shop)
    applied(shop, CHANGED)
    assert counted(shop) == refunds(first, 0)
    assert (promoted(shop).release, counted(shop)) == (2, refunds(first, -10))

    # Both releases are brought up to a new cut.
    shop.sell(second)
    write_archive.run(shop.run("archive"), shop.project)
    now = recomputed(shop)
    both = together(first, second)
    assert (now.number, now.release, counted(shop)) == (4, 2, refunds(both, -10))
    old = StandingReleases(shop.tables).state_of(1)
    assert old is not None
    assert_true(shop, old, both)

    back = shop.roll_back(2)
    assert (back.release, back.kind, counted(shop)) == (1, "rollback", refunds(both, 0))
    shop.sell(third)
    write_archive.run(shop.run("archive"), shop.project)
    waiting = recompute.run(shop.run("recompute"), shop.project)
    assert (waiting.paused, waiting.publication, counted(shop)) == (True, back, refunds(both, 0))
    promotion.resume(StandingReleases(shop.tables), by="test", at=datetime.now(UTC))
    every = together(both, third)
    assert_true(shop, recomputed(shop), every)
    # What was built for it stands ready still, and its cut has moved with the live one's.
    assert applied(shop, CHANGED).release == 2
    assert (promoted(shop).release, counted(shop)) == (2, refunds(every, -10))

    promotion.retire(StandingReleases(shop.tables), 1, by="test", at=datetime.now(UTC))
    recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full"))
    assert StandingReleases(shop.tables).newest(1) is not None
    assert live(shop).counts["sales"].events == truth(every).events
    assert counted(shop) == refunds(every, -10)


@pytest.mark.each_run("*larger*")
@pytest.mark.parametrize("again", ["", "larger refunds alone"])
def test_history_has_the_reason_of_an_apply_that_is_promoted_later(shop: Shop, again: str) -> None:
    """A recompute in between moves the release's cut, and an apply of what is ready may give another reason."""
    shop.sell(records(51, 60))
    write_archive.run(shop.run("archive"), shop.project)
    recomputed(shop)
    applied(shop, CHANGED, why="larger refunds")
    shop.sell(records(52, 20))
    write_archive.run(shop.run("archive"), shop.project)
    recomputed(shop)
    assert applied(shop, CHANGED, why=again).written == 0
    assert promoted(shop).why == (again or "larger refunds")


def test_a_changed_decoder_reads_the_archive_again(shop: Shop) -> None:
    first, second = records(35, 200), records(36, 60)
    shop.sell(first)
    write_archive.run(shop.run("archive"), shop.project)
    before = recomputed(shop)
    # A default is part of what decodes.
    other = DEFINITIONS.replace("cents: int\n", "cents: int\n    till: int = 3\n").replace(
        'total("cents")', 'total("cents + till")'
    )
    done = applied(shop, other)
    state = StandingReleases(shop.tables).state_of(2)
    assert state is not None
    assert (done.release, state.counts, state.watermarks) == (2, before.counts, before.watermarks)
    shop.sell(second)
    write_archive.run(shop.run("archive"), shop.project)
    now = recomputed(shop)
    both = together(first, second)
    assert_true(shop, now, both)
    promoted(shop)
    reader = Reader(shop.tables)
    reader.refresh()
    found = {(row["shop"], row["window_start"]): row["cents"] for row in given(reader.answer("per_hour")).rows()}
    assert found == {key: total + 3 * n for key, (n, total, *_) in truth(both).per_hour.items()}


def test_rejects_that_become_readable_count_once(shop: Shop) -> None:
    """One is the first of its identity: the event that counted in its place becomes a duplicate."""
    first, second = records(53, 60), records(54, 30)
    (one, two, *_) = (value for value in first[0] if value and value not in MALFORMED)
    without = [
        json.dumps({name: value for name, value in json.loads(sale).items() if name != "cents"}).encode() for sale in (one, two)
    ]
    alone = without[1].replace(b'"id": "', b'"id": "alone-')
    first = {0: [without[0], *first[0]], 1: [*first[1], alone]}
    shop.sell(first)
    write_archive.run(shop.run("archive"), shop.project)
    before = recomputed(shop)
    assert before.counts["sales"].quarantined["missing_field"] == 2
    applied(shop, DEFINITIONS.replace("    shop: str\n    cents: int\n", "    shop: str\n    cents: int = 5\n"))
    shop.sell(second)
    write_archive.run(shop.run("archive"), shop.project)
    recomputed(shop)
    readable = {partition: [with_cents(value) for value in values] for partition, values in together(first, second).items()}
    assert_true(shop, promoted(shop), readable)


def with_cents(value: bytes | None) -> bytes | None:
    """A sale as the definitions with a default read it."""
    return value if not value or value in MALFORMED else json.dumps({"cents": 5, **json.loads(value)}).encode()


def test_definitions_of_the_same_meaning_write_no_view_data(shop: Shop) -> None:
    """A renamed view keeps its batch view, also when that grows, whoever else needs the table."""
    first, second = records(41, 200), records(42, 60)
    shop.sell(first)
    write_archive.run(shop.run("archive"), shop.project)
    before = recompute.run(shop.run("recompute"), shop.project)
    views = Path(shop.tables.view("refunds", "")).parent
    files = {path: path.stat().st_size for path in views.rglob("*.parquet")}
    assert sum(done.written for done in before.done) == sum(files.values()) > 0

    done = applied(shop, RENAMED)
    assert (done.release, done.written) == (2, 0)
    assert done.status == {"per_hour": "unchanged", "returns": "added", "refunds": "removed"}
    now = promoted(shop)
    assert (now.rejected, now.after_final.keys()) == ({"per_hour": {}, "returns": {}}, {"per_hour", "returns"})
    assert recompute.run(shop.run("recompute"), shop.project).done == ()
    assert {path: path.stat().st_size for path in views.rglob("*.parquet")} == files
    assert counted(shop, "returns") == refunds(first, 0)

    shop.sell(second)
    write_archive.run(shop.run("archive"), shop.project)
    now, both = recomputed(shop), together(first, second)
    old = StandingReleases(shop.tables).state_of(1)
    assert old is not None
    assert_true(shop, old, both)
    assert (counted(shop, "returns"), now.views["returns"].at) == (
        refunds(both, 0),
        f"refunds/{now.views['returns'].fingerprint}",
    )
    whole = folded_again(shop, "returns")
    assert counted(shop, "returns") == refunds(both, 0)
    # Under its old name beside it, it is a view with a table of its own.
    done = applied(shop, RENAMED.replace("SOURCES", "refunds = View(sales, where='cents < 0', measures=returns.measures)\nSOURCES"
                                         ).replace("VIEWS = (per_hour,", "VIEWS = (per_hour, refunds,"))  # fmt: skip
    assert done.written > 0
    promoted(shop)
    assert recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full")).done
    assert counted(shop, "returns") == counted(shop, "refunds") == refunds(both, 0)
    needed = [Releases(shop.tables).load(2)]
    table = Path(whole.views["returns"].address(shop.tables, "returns"))
    every, known = Releases(shop.tables).every(), Publications(shop.tables).history()
    assert str(table) not in drop_unneeded(shop.tables, every, known, needed=needed, kept=[whole])
    assert table.is_dir()


@pytest.mark.each_run("*mistyped")
@pytest.mark.parametrize("mistyped", [False, True], ids=["unread", "mistyped"])
def test_a_field_that_no_view_reads_writes_no_view_data_unless_it_rejects_records(shop: Shop, *, mistyped: bool) -> None:
    """Old records hold the field already, which was ignored: as one value of its type, or of another type."""
    first, second = records(43, 200), records(44, 60)
    said: list[str] = []
    held: Log = {0: [sale("held", '"wet"'), sale("mistyped", "7" if mistyped else "null")], 1: []}
    shop.sell(first)
    shop.sell(held)
    write_archive.run(shop.run("archive"), shop.project)
    before = recomputed(shop)
    views = Path(shop.tables.view("refunds", "")).parent
    files = {path: path.stat().st_size for path in views.rglob("*.parquet")}
    assert files

    shop.define(DEFINITIONS.replace("cents: int\n", "cents: int\n    weather: str | None = None\n"))
    done = apply.run(replace(shop.run("apply"), say=said.append), shop.project, Terms(max_lag=0))
    assert (done.status, done.written == 0) == ({"per_hour": "changed", "refunds": "changed"}, not mistyped)
    assert any("keeps its batch view: it does not read weather" in line for line in said) is not mistyped
    assert any("is recomputed: weather rejects archived records" in line for line in said) is mistyped
    assert ({path: path.stat().st_size for path in views.rglob("*.parquet")} == files) is not mistyped
    now = promoted(shop)
    assert now.counts["sales"].events == before.counts["sales"].events - mistyped
    assert {name: view.parts == before.views[name].parts for name, view in now.views.items()} == dict.fromkeys(
        now.views, not mistyped
    )
    assert recompute.run(shop.run("recompute"), shop.project).done == ()
    kept_sales = together(first, {0: [held[0][0], b"{" if mistyped else held[0][1]], 1: []})
    assert_true(shop, now, kept_sales)

    # Its batch view grows, and is folded whole again, in the table that it has.
    shop.sell(second)
    write_archive.run(shop.run("archive"), shop.project)
    both = together(kept_sales, second)
    assert_true(shop, recomputed(shop), both)
    folded_again(shop, "refunds")
    assert counted(shop) == refunds(both, 0)
    old = StandingReleases(shop.tables).state_of(1)
    assert old is not None
    assert_true(shop, old, together(together(first, held), second))


def test_an_interrupted_build_of_a_release_starts_over(shop: Shop) -> None:
    log = records(37, 120)
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)
    recomputed(shop)

    def killed(*_: object) -> Mapping[str, object]:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            applied(shop, CHANGED)
    assert promotion.ready(StandingReleases(shop.tables), days=7, at=datetime.now(UTC)) == {}
    recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full"))
    assert applied(shop, CHANGED).release == 3
    assert [release.number for release in Releases(shop.tables).every()] == [1, 2, 3]
    promoted(shop)
    assert counted(shop) == refunds(log, -10)


def test_a_shorter_history_is_refused(shop: Shop) -> None:
    log = records(38, 120)
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)
    recomputed(shop)

    def more(parent: Publication | None) -> Publication:
        """As if the archive had had ten records more when the live views were built."""
        assert parent is not None
        counts = parent.counts["sales"]
        return replace(parent, counts={"sales": replace(counts, holes=counts.holes + 10)})

    Publications(shop.tables).publish(more)
    with pytest.raises(ShorterHistory, match=r"shorter history of sales: 10 offsets.*--accept-shorter-history"):
        applied(shop, CHANGED)
    assert applied(shop, CHANGED, Terms(shorter_history=True, max_lag=0)).release == 2, "a refused release is not stored"
    assert promoted(shop).gaps == ("shorter history of sales: 10 offsets",)
    shop.sell(records(39, 10))
    write_archive.run(shop.run("archive"), shop.project)
    assert recomputed(shop).gaps == ("shorter history of sales: 10 offsets",)


def test_a_project_that_was_never_published_is_published(shop: Shop) -> None:
    done = applied(shop, DEFINITIONS)
    assert (done.release, done.live.number, done.live.kind) == (None, 1, "initial")
    shop.sell({0: records(40, 5)[0]})
    done = applied(shop, CHANGED)
    assert done.diff is not None
    assert done.diff.views["refunds"]["matched"] == 0
    assert promoted(shop).release == 2


def test_rows_that_differ_are_those_that_apply_found(shop: Shop) -> None:
    """The log has duplicates, which batch removed on both sides: the definition is the reason of each row."""
    shop.sell(records(31, 200))
    write_archive.run(shop.run("archive"), shop.project)
    recomputed(shop)
    done = applied(shop, CHANGED)
    assert done.diff is not None
    asked = IfPromoted(shop.tables, 2, 7.0)
    comparison = ReleaseComparison(Reader(shop.tables), Reader(shop.tables, asked=asked))
    for name, figures in done.diff.views.items():
        found = comparison.of(name)
        totals = (found.totals.matched, found.totals.changed, found.totals.only_old, found.totals.only_new)
        assert totals == tuple(figures[which] for which in ("matched", "changed", "only_old", "only_new"))
        assert {row.why for row in found.rows} == {(("new definition",), True)}
        assert len(found.rows) == sum(totals[1:])
