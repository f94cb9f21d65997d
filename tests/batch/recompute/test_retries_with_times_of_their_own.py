"""With `identity_spans="any_time"` an event and its retries of other times count once, at the first, however batch gets there."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Failed
from tests.batch.shop import DEFINITIONS, Log, Shop, records, together

EVER = DEFINITIONS.replace('identity=("id",)', 'identity=("id",), identity_spans="any_time"')
Hours = dict[tuple[str, str], tuple[int, int]]


def retried(log: Log, *, every: int, hours: int) -> Log:
    """Some sales again, hours later, in their own partition."""
    return {partition: [later(value, hours) for value in values[::every] if is_sale(value)] for partition, values in log.items()}


def is_sale(value: bytes | None) -> bool:
    return value is not None and b'"shop": "shop' in value


def later(value: bytes | None, hours: int) -> bytes:
    sale = json.loads(value or b"")
    return json.dumps(sale | {"at": (datetime.fromisoformat(sale["at"]) + timedelta(hours=hours)).isoformat()}).encode()


def truth(log: Log) -> Hours:
    """By shop and hour the number and cents of the sales, of each id the first in the log."""
    ids: set[str] = set()
    groups: dict[tuple[str, str], list[int]] = {}
    for sale in (json.loads(value or b"") for partition in sorted(log) for value in log[partition] if is_sale(value)):
        if sale["id"] not in ids:
            ids.add(sale["id"])
            hour = datetime.fromisoformat(sale["at"]).astimezone(UTC).strftime("%Y-%m-%dT%H:00:00Z")
            groups.setdefault((sale["shop"], hour), []).append(sale["cents"])
    return {key: (len(cents), sum(cents)) for key, cents in groups.items()}


def answered(shop: Shop) -> Hours:
    outcome = Reader(shop.tables).answer("per_hour", layer="batch")
    assert not isinstance(outcome, Failed), outcome
    return {(row["shop"], row["window_start"]): (row["n"], row["cents"]) for row in outcome.rows()}


def run(shop: Shop, log: Log, **request: Any) -> list[str]:
    """Sell, archive and recompute; the kinds of the steps."""
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)
    return [done.kind for done in recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(**request)).done]


def test_a_full_an_incremental_and_a_partial_run_count_the_first_alone(shop: Shop) -> None:
    shop.define(EVER)
    first = records(61, 200)
    log = together(first, retried(first, every=3, hours=5))
    assert run(shop, log) == ["full"]
    assert answered(shop) == truth(log)

    # Retries of what is far back in the log, in the window of their first and in others.
    new = together(records(62, 30), together(retried(first, every=2, hours=30), retried(first, every=5, hours=0)))
    log = together(log, new)
    assert run(shop, new) == ["incremental"]
    assert answered(shop) == truth(log)

    hours = sorted(datetime.fromisoformat(hour) for _, hour in truth(log))
    windows = (hours[0], hours[0] + timedelta(hours=2))
    recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(windows=windows))
    assert answered(shop) == truth(log)
    recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full", keep_cut=True))
    assert answered(shop) == truth(log)


def test_a_retry_that_is_first_in_log_order_moves_the_event(shop: Shop) -> None:
    """It is in partition 0, the event in partition 1: batch counts the retry, at its time, as a full run does."""
    shop.define(EVER)
    first = records(63, 60)
    run(shop, first)
    (sale, *_) = filter(is_sale, first[1])
    new: Log = {0: [later(sale, 7)], 1: []}
    run(shop, new)
    assert answered(shop) == truth(together(first, new))
