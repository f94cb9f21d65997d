"""A view that keeps its windows for some time, through apply, recompute, rollback and maintain."""

from datetime import UTC, datetime, timedelta

from tandem.batch.archive import archive
from tandem.batch.maintain import maintain
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tests.batch.release.test_apply import applied, promoted, recomputed
from tests.batch.shop import DEFINITIONS, MemoryShop, Shop, answers, records, truth

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


def test_windows_leave_at_apply_and_come_back_where_more_is_kept(shop: Shop) -> None:
    log = {number: list(values) for number, values in records(71, 200).items()}
    shop.sell(log)
    archive.run(shop.run("archive"), shop.project)
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
