"""Conditions that a view expects of its rows are checked over all of them before anything is published."""

from datetime import UTC, datetime

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.recompute.expectations import ExpectationUnmet
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.batch.release import apply
from tandem.batch.release.apply import Applied
from tandem.batch.release.release_plan import Terms
from tandem.ledger.publish import promotion
from tandem.ledger.publish.audits import Audits
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.standing import StandingReleases
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.views.condition_result import ConditionResult
from tests.batch.shop import DEFINITIONS, Log, Shop, answers, records

HOURS = '"usual": mean("cents")},'


def expecting(conditions: str) -> str:
    """The shop's definitions, with conditions of its hours."""
    assert HOURS in DEFINITIONS
    return DEFINITIONS.replace(HOURS, f"{HOURS}\n    expect={conditions},")


def publish(shop: Shop, log: Log | None = None, request: RecomputeRequest | None = None) -> Publication:
    if log is not None:
        shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)
    return recompute.run(shop.run("recompute"), shop.project, request or RecomputeRequest()).publication


def apply_release(shop: Shop, definitions: str) -> Applied:
    shop.define(definitions)
    return apply.run(shop.run("apply"), shop.project, Terms(max_lag=0))


def live(shop: Shop) -> Publication:
    result = Publications(shop.tables).latest()
    assert result is not None
    return result


def outcomes(shop: Shop, view: str = "per_hour") -> list[ConditionResult]:
    """The results of the newest run, by the order of the conditions."""
    result = [audit for audit in Audits(shop.tables).history(view=view) if audit.expectation is not None]
    return [audit.expectation for audit in result if audit.version == result[-1].version and audit.expectation]


def test_a_condition_that_stops_keeps_the_publication_and_names_the_worst_rows(shop: Shop) -> None:
    shop.define(expecting('{"biggest < 499": "stop", "n > 1": "warn"}'))
    log = records(5, 60)
    publish(shop, {0: [value for value in log[0] if b"499" not in (value or b"")], 1: []})
    before = live(shop)
    hours = answers(shop, before, "per_hour")
    assert [(check.rows, check.unmet) for check in outcomes(shop)] == [
        (len(hours), 0),
        (len(hours), sum(row["n"] < 2 for row in hours)),
    ]

    sale = b'{"id": "%d", "at": "2026-03-01T09:30:00Z", "shop": "far", "cents": %d}'
    with pytest.raises(ExpectationUnmet) as refused:
        publish(shop, {0: [sale % (number, cents) for number, cents in ((1, 499), (2, 12_000))], 1: []})
    assert live(shop) == before
    assert "view 'per_hour': 1 of " in str(refused.value)
    assert "does not meet 'biggest < 499': shop=far, window_start=2026-03-01T09:00:00Z" in str(refused.value)
    assert "biggest=12000; publication" in str(refused.value)
    (first, _) = outcomes(shop)
    assert (first.unmet, first.stops, first.worst[0]["values"], first.worst[0]["far"]) == (1, True, {"biggest": 12_000}, 11_501.0)

    published = publish(shop, request=RecomputeRequest(publish_anyway=True))
    assert published.number > before.number
    assert max(row["biggest"] for row in answers(shop, published, "per_hour")) == 12_000


def test_rows_are_held_against_those_of_the_publication(shop: Shop) -> None:
    shop.define(expecting('{"n >= before.n": "stop", "rows >= 1.5 * before.rows": "warn", "cents < 2 * before.cents": "warn"}'))
    publish(shop, records(6, 40))
    before = {(row["shop"], row["window_start"]): row for row in answers(shop, live(shop), "per_hour")}
    # Nothing was published before, so nothing was compared.
    assert [(check.unmet, check.worst) for check in outcomes(shop)] == [(0, ())] * 3

    publish(shop, records(7, 400))
    after = {(row["shop"], row["window_start"]): row for row in answers(shop, live(shop), "per_hour")}
    doubled = [place for place, row in after.items() if place in before and row["cents"] >= 2 * before[place]["cents"]]
    first, rows, cents = outcomes(shop)
    assert first.unmet == 0
    assert (rows.rows, rows.unmet) == (None, int(len(after) < 1.5 * len(before)))
    assert (cents.rows, cents.unmet) == (len(after), len(doubled))
    assert {(check["row"]["shop"], check["row"]["window_start"]) for check in cents.worst} <= {*doubled}


def test_a_release_that_does_not_meet_a_condition_is_not_built_and_another_is(shop: Shop) -> None:
    publish(shop, records(8, 80))
    before = live(shop)
    with pytest.raises(ExpectationUnmet, match=r"release 2 is not built; correct the definitions and apply again"):
        apply_release(shop, expecting('{"usual > 1000": "stop"}').replace('mean("cents")', 'mean("cents + 1")'))
    assert live(shop) == before
    with pytest.raises(promotion.NotReady):
        promotion.promote(StandingReleases(shop.tables), None, days=7, max_lag=0, by="test", at=datetime.now(UTC))

    done = apply_release(
        shop,
        expecting('{"usual > 1000": "warn", "usual = before.usual + 1": "stop"}').replace('mean("cents")', 'mean("cents + 1")'),
    )
    assert done.release == 3
    assert [(check.condition, check.unmet > 0) for check in outcomes(shop)] == [
        ("usual > 1000", True),
        ("usual = before.usual + 1", False),
    ]


def test_conditions_alone_are_a_release_whose_recomputes_check_them(shop: Shop) -> None:
    publish(shop, records(8, 40))
    assert outcomes(shop) == []
    apply_release(shop, expecting('{"n > 0": "stop"}'))
    promotion.promote(StandingReleases(shop.tables), None, days=7, max_lag=0, by="test", at=datetime.now(UTC))
    publish(shop, records(9, 40))
    assert [(check.condition, check.unmet) for check in outcomes(shop)] == [("n > 0", 0)]


ROLLUPS = """
from tandem import rollup
per_shop = rollup(per_hour, window=all_time(), measures=("n", "cents"), expect={"n < 1000000": "warn", "rows > 100": "stop"})
VIEWS = (per_hour, refunds, per_shop)
"""


def test_a_rollup_is_checked_when_its_parent_is_built(shop: Shop) -> None:
    shop.define(DEFINITIONS.replace("tumbling\n", "tumbling, all_time\n") + ROLLUPS)
    with pytest.raises(ExpectationUnmet, match=r"view 'per_shop': 'rows > 100' does not hold: rows=4"):
        publish(shop, records(5, 100))
    assert [(check.rows, check.unmet) for check in outcomes(shop, "per_shop")] == [(4, 0), (None, 1)]


def test_a_standing_release_that_does_not_meet_a_condition_fails_alone(shop: Shop) -> None:
    publish(shop, records(5, 40))
    assert apply_release(shop, expecting('{"biggest < 499": "stop"}').replace('mean("cents")', 'mean("cents + 1")')).release == 2
    sale = b'{"id": "a", "at": "2026-03-01T09:30:00Z", "shop": "far", "cents": 700}'
    published = publish(shop, {0: [sale], 1: []})
    assert max(row["biggest"] for row in answers(shop, published, "per_hour")) == 700
    newest = StandingReleases(shop.tables).newest(2)
    assert newest is not None
    assert (newest.stage, "does not meet 'biggest < 499'" in (newest.state.why or "")) == ("failed", True)


def test_no_window_that_has_left_counts(shop: Shop) -> None:
    keeping = expecting('{"n < 1000000": "warn", "rows < 1000000": "warn"}').replace(
        "import datetime", "import datetime, timedelta"
    )
    shop.define(keeping.replace("window=tumbling(hours=1),", "window=tumbling(hours=1), keep=timedelta(hours=2),"))
    sale = b'{"id": "%d", "at": "2026-03-01T%02d:30:00Z", "shop": "s", "cents": 1}'
    for hour in range(6):
        publish(shop, {0: [sale % (hour, hour)], 1: []})
        reader = Reader(shop.tables)
        reader.refresh()
        there = len(given(reader.answer("per_hour", layer="batch")).rows())
        first, _ = outcomes(shop)
        assert first.rows == there == min(hour + 1, 3)
