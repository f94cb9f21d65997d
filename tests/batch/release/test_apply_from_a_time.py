"""`apply --from T`: windows before T keep their definition, also for late events; only windows from T on are folded."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.batch.release import apply
from tandem.batch.release.release_plan import Terms
from tandem.batch.release.starting_time import NOW, Start
from tandem.batch.verify.oracle_sample import sampled
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import StandingReleases
from tandem.serving.memory.store import Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.serving.read.selection import Selection
from tandem.views.composite.dated import DatedView
from tandem.views.errors import DefinitionError, TandemError
from tandem.views.kernel.rows import to_rows
from tandem.views.project.project import load_files
from tests.batch.release.test_apply import promoted, recomputed
from tests.batch.shop import DEFINITIONS, Shop, answers, records, together, truth

LARGER = DEFINITIONS.replace('"usual": mean("cents")', '"usual": mean("cents + 1"), "least": minimum("cents")').replace(
    "maximum, mean,", "maximum, mean, minimum,"
)
OTHER = LARGER.replace('"n": count(), "cents"', '"n": count(filter="cents >= 0"), "cents"').replace(
    '"biggest": maximum("cents"), ', ""
)
FIRST, SECOND, THIRD = (datetime(2026, 3, 1, hour, tzinfo=UTC) for hour in (1, 2, 3))
Rows = dict[tuple[str, str], dict[str, Any]]


def applied(shop: Shop, definitions: str, start: Start) -> apply.Applied:
    shop.define(definitions)
    return apply.run(shop.run("apply"), shop.project, Terms(max_lag=0, start=start))


def rows(shop: Shop, live: Publication) -> Rows:
    return {(row["shop"], row["window_start"]): row for row in answers(shop, live, "per_hour")}


def expected(log: Mapping[int, Any], *definitions: tuple[datetime, str]) -> Rows:
    """What plain Python makes of the log: each hour by the last definition that begins at it or before."""
    found = {}
    for (shop, hour), (n, cents, biggest, usual) in truth(log).per_hour.items():
        which = next((name for start, name in reversed(definitions) if datetime.fromisoformat(hour) >= start), DEFINITIONS)
        found[shop, hour] = {
            "n": n, "cents": cents, "usual": pytest.approx(usual + (which != DEFINITIONS)), "least": which != DEFINITIONS,
            "biggest": biggest,
        }  # fmt: skip
    return found


def assert_rows(shop: Shop, live: Publication, log: Mapping[int, Any], *definitions: tuple[datetime, str]) -> None:
    found = {key: {**row, "least": row.get("least") is not None} for key, row in rows(shop, live).items()}
    names = ("n", "cents", "usual", "least")
    wanted = expected(log, *definitions)
    assert found.keys() == wanted.keys()
    for key, row in wanted.items():
        if OTHER not in [which for start, which in definitions if datetime.fromisoformat(key[1]) >= start]:
            assert {name: found[key][name] for name in names} == {name: row[name] for name in names}, key


def assert_answered(shop: Shop, live: Publication) -> None:
    """A reader of files and a view in memory answer what the batch tables hold."""
    wanted = sorted(answers(shop, live, "per_hour"), key=str)
    reader, store = Reader(shop.tables), Store(shop.tables, seed=7)
    reader.refresh()
    store.refresh()
    pinned = store.pinned()
    memory = store.in_memory(pinned, pinned.view("per_hour"))
    assert memory is not None
    for found in (
        given(reader.answer("per_hour")).rows(),
        to_rows(pinned.view("per_hour"), memory.answers.select(Selection()).table),
    ):
        assert sorted(({**row, "window_state": "open"} for row in found), key=str) == wanted


def assert_as_the_oracle_says(shop: Shop, live: Publication) -> None:
    """What `verify` does with the published answers of every key."""
    release = Releases(shop.tables).load(live.release)
    project = load_files(release.files)
    views = {"per_hour": project.views["per_hour"]}
    (found,) = sampled(shop.tables, live, release, project.sources["sales"], views, keys=100)
    assert (found.keys, found.differ) == (4, 0)
    assert found.answers > 50


def sold(shop: Shop, log: Mapping[int, Any]) -> None:
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)


def test_windows_before_a_time_keep_their_states_and_late_events_their_definition(shop: Shop) -> None:
    log = records(71, 900)
    sold(shop, log)
    before = recomputed(shop)
    done = applied(shop, LARGER, SECOND)
    assert (done.release, done.status) == (2, {"per_hour": "changed", "refunds": "unchanged"})
    state = StandingReleases(shop.tables).state_of(2)
    assert state is not None
    kept, added = state.views["per_hour"].parts
    assert (kept, kept.rows > added.rows) == (before.views["per_hour"].parts[0], True), "only windows from then on are folded"
    assert_rows(shop, state, log, (SECOND, LARGER))
    live = promoted(shop)
    assert_rows(shop, live, log, (SECOND, LARGER))
    assert_answered(shop, live)

    more = records(72, 300, known=log[0])
    sold(shop, more)
    both = together(log, more)
    live = recomputed(shop)
    assert_rows(shop, live, both, (SECOND, LARGER))
    whole = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full")).publication
    assert len(whole.views["per_hour"].parts) == 1
    assert_rows(shop, whole, both, (SECOND, LARGER))
    assert rows(shop, whole) == {key: {**row, "usual": pytest.approx(row["usual"])} for key, row in rows(shop, live).items()}


@pytest.mark.slow
def test_a_chain_of_three_releases_and_back(shop: Shop) -> None:
    log = records(73, 900)
    sold(shop, log)
    first = recomputed(shop)
    assert applied(shop, LARGER, SECOND).release == 2
    second = promoted(shop)
    assert applied(shop, OTHER, THIRD).release == 3
    third = promoted(shop)
    assert_rows(shop, third, log, (SECOND, LARGER), (THIRD, OTHER))
    (view,) = [view for view in load_files(Releases(shop.tables).load(3).files).views.values() if isinstance(view, DatedView)]
    assert [one.until for one in view.earlier] == [SECOND, THIRD]
    assert_answered(shop, third)
    assert_as_the_oracle_says(shop, third)
    assert applied(shop, OTHER, None).release is None, "the newest definitions are live, from their time on"

    shop.roll_back(second.number)
    shop.roll_back(first.number)
    assert_rows(shop, Publications(shop.tables).latest() or first, log)
    more = records(74, 200, known=log[1])
    sold(shop, more)
    assert applied(shop, LARGER, FIRST).release == 4
    live = promoted(shop)
    assert_rows(shop, live, log, (FIRST, LARGER))
    live = recomputed(shop)
    assert_rows(shop, live, together(log, more), (FIRST, LARGER))


def test_another_view_that_changes_leaves_the_times_of_the_first(shop: Shop) -> None:
    log = records(75, 300)
    sold(shop, log)
    recomputed(shop)
    applied(shop, LARGER, FIRST)
    live = promoted(shop)
    done = applied(shop, LARGER.replace("cents < 0", "cents < -10"), None)
    assert done.status == {"per_hour": "unchanged", "refunds": "changed"}
    state = StandingReleases(shop.tables).state_of(3)
    assert state is not None
    assert state.views["per_hour"] == live.views["per_hour"]
    with pytest.raises(DefinitionError, match=r"view 'refunds' has window all_time\(\), which does not begin at a time"):
        applied(shop, LARGER.replace("cents < 0", "cents < -10"), FIRST)


def test_now_is_the_watermark_of_the_log_and_is_taken_once(shop: Shop) -> None:
    shop.define(DEFINITIONS)
    recomputed(shop)
    with pytest.raises(TandemError, match="source 'sales' has counted no event"):
        applied(shop, LARGER, NOW)
    log = records(76, 300)
    sold(shop, log)
    live = recomputed(shop)
    done = applied(shop, LARGER, NOW)
    assert done.release == 2
    view = load_files(Releases(shop.tables).load(2).files).views["per_hour"]
    assert isinstance(view, DatedView)
    assert view.earlier[0].until == datetime.fromtimestamp(live.watermarks["sales"] / 1e6, UTC)
    assert applied(shop, LARGER, NOW).release == 2, "a second run continues the first"


def test_a_source_that_changes_is_refused(shop: Shop) -> None:
    sold(shop, records(77, 60))
    recomputed(shop)
    other = LARGER.replace('identity=("id",)', 'identity=("id", "shop")')
    with pytest.raises(DefinitionError, match=r"view 'per_hour': its source 'sales' has changed .identity"):
        applied(shop, other, FIRST)


def test_an_optional_field_may_be_new(shop: Shop) -> None:
    log = records(78, 300)
    sold(shop, log)
    recomputed(shop)
    wanted = LARGER.replace("    cents: int\n", "    cents: int\n    weather: str | None = None\n").replace(
        'minimum("cents")}', 'minimum("cents"), "wet": count(filter="weather = \'rain\'")}'
    )
    assert applied(shop, wanted, FIRST).release == 2
    assert_rows(shop, promoted(shop), log, (FIRST, LARGER))
