"""A view that keeps its windows for some time, through apply, recompute, rollback and maintain."""

from datetime import UTC, datetime, timedelta

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.maintain import maintain
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.batch.verify.oracle_sample import sampled
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Releases
from tandem.views.project.project import load_files
from tests.batch.release.test_apply import applied, promoted, recomputed
from tests.batch.release.test_apply_from_a_time import LARGER, SECOND, sold
from tests.batch.release.test_apply_from_a_time import applied as applied_from
from tests.batch.shop import DEFINITIONS, Log, MemoryShop, Shop, answers, records, together, truth

KEEPING = DEFINITIONS.replace("import datetime", "import datetime, timedelta").replace(
    '"usual": mean("cents")},', '"usual": mean("cents")},\n    keep=timedelta(hours=HOURS),'
)


def kept(shop: Shop, rows: list[dict[str, object]], log: dict[int, list[bytes | None]], hours: int) -> None:
    """The rows are those of the hours that end after the greatest time less what the view keeps."""
    expected = truth(log).per_hour
    newest = max(datetime.fromisoformat(hour) for _, hour in expected)
    staying = {key for key in expected if datetime.fromisoformat(key[1]) >= newest - timedelta(hours=hours)}
    assert {(row["shop"], row["window_start"]) for row in rows} == staying
    assert sum(int(str(row["n"])) for row in rows) == sum(expected[key][0] for key in staying)


@pytest.mark.slow
def test_windows_leave_at_apply_and_come_back_where_more_is_kept(shop: Shop) -> None:
    log = {number: list(values) for number, values in records(71, 200).items()}
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)
    before = recomputed(shop)
    for hours in (2, 1, 3):
        applied(shop, KEEPING.replace("HOURS", str(hours)))
        live = promoted(shop)
        kept(shop, answers(shop, live, "per_hour"), log, hours)
    for request in (RecomputeRequest(keep_cut=True), RecomputeRequest(mode="full"), RecomputeRequest(mode="full", raw=True)):
        live = recompute.run(shop.run("recompute"), shop.project, request).publication
        kept(shop, answers(shop, live, "per_hour"), log, 3)
    back = shop.roll_back(before.number)
    assert len(answers(shop, back, "per_hour")) == len(truth(log).per_hour)
    if not isinstance(shop, MemoryShop):
        return  # the JVM of this process holds the locks that maintain takes
    maintain.run(shop.settings, now=lambda: datetime.now(UTC), say=lambda _: None)
    assert len(answers(shop, back, "per_hour")) == len(truth(log).per_hour)


def keeping(definitions: str, hours: int) -> str:
    return definitions.replace("import datetime", "import datetime, timedelta").replace(
        "window=tumbling(hours=1),", f"window=tumbling(hours=1),\n    keep=timedelta(hours={hours}),"
    )


@pytest.mark.each_run("*-2")
@pytest.mark.parametrize("hours", [3, 2, 30])
def test_of_definitions_from_a_time_on_the_newest_says_how_long_windows_stay(shop: Shop, hours: int) -> None:
    """Also where it keeps more than the live one, whose earlier windows have left the tables."""
    log = records(81, 900)
    shop.define(keeping(DEFINITIONS, 3))
    sold(shop, log)
    recomputed(shop)
    assert applied_from(shop, keeping(LARGER, hours), SECOND).release == 2

    def assert_kept(live: Publication, log: Log) -> None:
        rows = answers(shop, live, "per_hour")
        kept(shop, rows, {number: list(values) for number, values in log.items()}, hours)
        assert all((row["least"] is not None) == (datetime.fromisoformat(row["window_start"]) >= SECOND) for row in rows)

    assert_kept(promoted(shop), log)
    more = records(82, 300, known=log[0])
    sold(shop, more)
    both = together(log, more)
    for request in (RecomputeRequest(), RecomputeRequest(mode="full"), RecomputeRequest(mode="full", raw=True)):
        live = recompute.run(shop.run("recompute"), shop.project, request).publication
        assert_kept(live, both)
    release = Releases(shop.tables).load(live.release)
    definitions = load_files(release.files)
    views = {"per_hour": definitions.views["per_hour"]}
    (compared,) = sampled(shop.tables, live, release, definitions.sources["sales"], views, keys=100)
    assert (compared.keys, compared.differ) == (4, 0)


def test_new_measures_of_a_view_whose_windows_have_left(shop: Shop) -> None:
    log = {number: list(values) for number, values in records(83, 600).items()}
    shop.define(keeping(DEFINITIONS, 2))
    sold(shop, log)
    recomputed(shop)
    more = DEFINITIONS.replace('"usual": mean("cents")', '"usual": mean("cents"), "least": minimum("cents")')
    applied(shop, keeping(more.replace("mean, total", "mean, minimum, total"), 2))
    rows = answers(shop, promoted(shop), "per_hour")
    kept(shop, rows, log, 2)
    assert all(row["least"] is not None for row in rows)
