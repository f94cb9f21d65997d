"""Folding tasks compare their states with the served ones, key by key, in any number of buckets, without Spark."""

from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tandem.batch.fold import fold, fold_job
from tandem.batch.rebuild.account import differences as summed
from tandem.batch.rebuild.gather_states import gather_states
from tandem.batch.rebuild.inputs import REPLAYED, SERVED, SERVED_AND_REPLAYED, Comparison, EarlierStates, LogRange, ViewTarget
from tandem.batch.recompute.audit import Unexplained, audits, refuse_unexplained
from tandem.batch.recompute.build import served
from tandem.batch.recompute.plan import RecomputeStep
from tandem.batch.verify.replay_compare import _archived, replayed_states
from tandem.ledger import cut_decision
from tandem.ledger.delta.location import Location
from tandem.ledger.files.splits import Slice
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.fetch_checks import Unclosed
from tandem.ledger.log.gaps import Gap
from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.ledger.publish.audits import Audit
from tandem.ledger.publish.batch_parts import BatchPart, BatchView
from tandem.ledger.publish.label_counts import counted_by_one
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Releases
from tandem.views.kernel.kernel import decode
from tandem.views.source.offset_ranges import Ranges
from tandem.views.verify.cause import cause
from tandem.views.verify.compare import MeasureDifference
from tandem.views.windows import count_window
from tests.serving.world import NOON, SOURCE, World, hit, position

_FILE = count()

Differences = dict[str, tuple[MeasureDifference, ...]]


def found(world: World, step: RecomputeStep, cut: Position, *, buckets: int = 1) -> tuple[EarlierStates, Differences]:
    """What folding `[step.start, cut)` finds beside what was served."""
    live = Publications(world.tables).latest()
    assert live is not None
    release = Releases(world.tables).load(live.release)
    log = log_range(world, live, step.start, cut)
    against = served(world.tables, live, log, step.views, gaps=())
    assert isinstance(against, EarlierStates), against
    views = world.project.views
    targets = {name: ViewTarget(views[name], BatchView(release.views[name]), parts) for name, parts in step.views.items()}
    return against, folded(world, log, targets, Comparison(against), version=9, buckets=buckets)[SERVED]


def log_range(world: World, live: Publication, start: Position, cut: Position) -> LogRange:
    return LogRange(Releases(world.tables).load(live.release), world.project.sources[SOURCE], start, cut)


def folded(
    world: World,
    log: LogRange,
    targets: dict[str, ViewTarget],
    comparison: Comparison,
    *,
    version: int | None = None,
    buckets: int = 1,
) -> dict[fold_job.Pair, Differences]:
    """What folding finds beside what it is to be compared with; it writes nothing without a version."""
    release, pairs = log.release, comparison.pairs
    folder = world.folder / f"events-{next(_FILE)}"
    folder.mkdir()
    events = decode(log.source, world.records(log.start, log.cut)).events
    pq.write_table(events, folder / "events.parquet")
    here = Location(str(folder))
    stored = gather_states(world.tables, targets, comparison)
    work = fold_job.FoldJob(release.files, SOURCE, here, stored.tables, here, (), version, buckets, pairs=pairs)
    ends = (log.start, comparison.end(log.cut), log.cut)
    parts = [Slice(ranges(*part), ("events.parquet",), 0) for part in pairwise(ends)]
    items = [parts[0], fold_job.Beyond(parts[1]), *stored.merged, *stored.compared]
    held: dict[int, list[Any]] = {bucket: [] for bucket in range(buckets)}
    for item in items:
        for bucket, value in fold._fold(work, item):
            held[bucket].append(value)
    built = [one for values in held.values() for one in fold._merge_bucket(work, iter(values))]
    assert version is not None or not [one for one in built if isinstance(one, fold_job.ViewFile)]
    compared = [one for one in built if isinstance(one, fold_job.KeyComparison)]
    return {pair: {name: summed(compared, name, pair) for name in targets} for pair in pairs}


def wrong(differences: Differences) -> set[str]:
    return {f"{view}.{one.measure}" for view, measures in differences.items() for one in measures if one.unequal}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two micro-batches below the published cut, two after it."""
    world = World(tmp_path)
    for number in range(4):
        for partition in (0, 1):
            world.append(partition, *(hit(f"/{n % 5}", 7 * n + number + 1, minute=20 * n) for n in range(6)), b"no hit")
        world.trigger()
        if number == 1:
            world.recompute(world.end, files=2)
    return world


def step(world: World, kind: str) -> RecomputeStep:
    live = Publications(world.tables).latest()
    assert live is not None
    if kind == "full":
        return RecomputeStep(SOURCE, "full", LOG_START, None, dict.fromkeys(world.project.views, ()))
    return RecomputeStep(SOURCE, "incremental", live.cut(SOURCE), None, {name: view.parts for name, view in live.views.items()})


@pytest.mark.parametrize("kind", ["full", "incremental"])
@pytest.mark.parametrize("buckets", [1, 3])
def test_nothing_differs(world: World, kind: str, buckets: int) -> None:
    against, differences = found(world, step(world, kind), world.end, buckets=buckets)
    assert len(against.commits) == 2
    assert any(against.parts.values()) == (kind == "full")
    assert wrong(differences) == set()
    hours = {(n % 5, n // 3) for n in range(6)}
    assert {one.rows for one in differences["per_page"]} == {len(hours)}


def test_at_the_published_cut_batch_is_compared_with_batch(world: World) -> None:
    live = Publications(world.tables).latest()
    assert live is not None
    against, differences = found(world, step(world, "full"), live.cut(SOURCE))
    assert against.commits == ()
    assert wrong(differences) == set()
    assert differences["per_page"][0].rows > 0


def test_a_wrong_partial_is_found_and_nothing_is_published(world: World) -> None:
    """Of a speed layer that has read one event otherwise than the log has it."""
    live = Publications(world.tables).latest()
    assert live is not None
    world.append(0, hit("/2", 400))
    world.trigger()
    world.log[0][-1] = hit("/2", 1000)
    against, differences = found(world, step(world, "incremental"), world.end, buckets=2)
    assert wrong(differences) >= {"per_page.bytes", "per_page.largest", "per_page.mean", "ever.bytes"}
    assert not wrong(differences) & {"per_page.n", "ever.n", "ever.pages", "inverse.n"}
    by_name = {one.measure: one for one in differences["ever"]}
    assert (by_name["bytes"].differ, by_name["bytes"].largest) == (1, 600.0)

    like = Audit(NOON, 9, live.number, 1, "", "", live.cut(SOURCE), world.end)
    with_none = list(audits(world.project.views, against, differences, copies=dict.fromkeys(differences, 0), like=like))
    with pytest.raises(Unexplained, match=r"view 'per_page', measure 'bytes': 1 of 6 answers .* was served and .* was found"):
        refuse_unexplained(with_none)
    with_copies = list(audits(world.project.views, against, differences, copies=dict.fromkeys(differences, 1), like=like))
    refuse_unexplained(with_copies)
    assert {one.figures.cause for one in with_copies if one.figures} == {"none", "duplicate"}


@pytest.mark.parametrize("kind", ["full", "incremental"])
@pytest.mark.parametrize("lost", [False, True])
def test_answers_below_a_bridge_are_compared(world: World, kind: str, *, lost: bool) -> None:
    """What the speed layer has not seen is folded all the same, and makes no difference."""
    reached = world.end
    if lost:
        world.append(0, hit("/2", 400))
        world.trigger()
        reached = world.end
        world.log[0][-1] = b"no hit"
    world.append(0, hit("/2", 1000), hit("/9", 1000))
    cut_decision.bridge(world.tables, 1, SOURCE, to=world.end, by="test", at=NOON)
    against, differences = found(world, step(world, kind), world.end, buckets=2)
    assert against.end == reached
    assert bool(wrong(differences)) == lost
    assert {one.differ for one in differences["per_page"] if one.measure == "n"} == {int(lost)}


def test_without_realtime_commits_batch_is_compared_with_batch(world: World) -> None:
    live = Publications(world.tables).latest()
    assert live is not None
    world.recompute(world.end)
    before = world.end
    world.append(0, hit("/2", 1000))
    cut_decision.bridge(world.tables, 1, SOURCE, to=world.end, by="test", at=NOON)
    against, differences = found(world, step(world, "full"), world.end)
    assert (against.commits, against.end) == ((), before)
    assert wrong(differences) == set()


def test_a_view_that_cannot_be_compared_has_the_reason(world: World) -> None:
    live = Publications(world.tables).latest()
    assert live is not None
    views = world.project.views
    beyond = log_range(world, live, world.end, position(99, 99))
    assert served(world.tables, replace(live, cuts={SOURCE: world.end}), beyond, views, gaps=()) == "bridge"
    gap = Gap("hits-gap-1", SOURCE, Ranges.of({("T", 0): (3, 4)}), "lost", NOON)
    full, newest = (log_range(world, live, start, world.end) for start in (LOG_START, live.cut(SOURCE)))
    assert served(world.tables, live, full, views, gaps=[gap]) == "gap"
    assert isinstance(served(world.tables, live, newest, views, gaps=[gap]), EarlierStates)
    torn = next(Path(world.tables.view("ever", live.views["ever"].fingerprint)).rglob("*.parquet"))
    torn.write_bytes(torn.read_bytes()[:-1])
    assert served(world.tables, live, full, views, gaps=()) == "damage"
    assert isinstance(served(world.tables, live, newest, views, gaps=()), EarlierStates)


def test_only_the_rebuilt_windows_are_compared(world: World) -> None:
    live = Publications(world.tables).latest()
    assert live is not None
    parts = {"per_page": (*live.views["per_page"].parts, BatchPart(3, 0, live.cut(SOURCE), (NOON, NOON.replace(hour=13))))}
    one = RecomputeStep(SOURCE, "windows", LOG_START, live.cut(SOURCE), parts)
    log = log_range(world, live, one.start, live.cut(SOURCE))
    against = served(world.tables, live, log, one.views, gaps=())
    realtime = Location.of(world.tables, world.tables.realtime(live.release, SOURCE))
    assert against == EarlierStates({"per_page": live.views["per_page"].parts}, realtime, (), live.cut(SOURCE))


@pytest.mark.parametrize("wrong_side", ["served", "replayed", None])
def test_published_replayed_and_folded_states_are_compared_in_pairs(world: World, wrong_side: str | None) -> None:
    """All three of the same log; the realtime table, which reaches from its start to the cut, stands for a replayed one."""
    if wrong_side == "replayed":
        world.append(0, hit("/2", 400))
        world.trigger()
        world.log[0][-1] = hit("/2", 1000)
    live = world.recompute(world.end, files=2)
    if wrong_side == "served":
        world.log[0][-2], right = hit("/2", 1000), world.log[0][-2]
        live = world.recompute(world.end)
        world.log[0][-2] = right
    release = Releases(world.tables).load(live.release)
    realtime = Location.of(world.tables, world.tables.realtime(release.number, SOURCE))
    published = EarlierStates({name: view.parts for name, view in live.views.items()}, realtime, (), world.end)
    comparison = Comparison(published, replayed_states(world.tables, release.number, SOURCE, world.end))
    log = LogRange(release, world.project.sources[SOURCE], LOG_START, world.end, raw=True)
    targets = {name: ViewTarget(world.project.views[name], view) for name, view in live.views.items()}
    found = {pair: bool(wrong(differences)) for pair, differences in folded(world, log, targets, comparison, buckets=2).items()}
    assert found == {
        SERVED: wrong_side == "served",
        REPLAYED: wrong_side == "replayed",
        SERVED_AND_REPLAYED: wrong_side is not None,
    }


def test_a_replay_must_reach_the_cut(world: World) -> None:
    world.append(0, hit("/2", 400))
    with pytest.raises(Unclosed, match="the replay of source 'hits' ends at"):
        replayed_states(world.tables, 1, SOURCE, world.end)


def test_the_effect_of_duplicates_is_bounded(world: World) -> None:
    """One event for each that came beyond the dedup window, two where each side may have counted another copy."""
    found, view = Counts(duplicates=5, conflicts=2), world.project.views["per_page"]
    in_order = replace(view, window=count_window(3))
    assert [counted_by_one(view, found, beyond=beyond) for beyond in (0, 1, 3)] == [4, 5, 7]
    assert counted_by_one(in_order, found, beyond=1) == 11
    assert [counted_by_one(one, found, beyond=None) for one in (view, in_order)] == [10, 10]


def test_compaction_does_not_excuse_differences_if_both_sides_read_the_archive(world: World) -> None:
    view = world.project.views["per_page"]
    compacted = replace(view, source=replace(view.source, compacted=True))
    one = MeasureDifference("n", 9, 1, 1, absolute=1.0)
    assert cause(compacted, one, copies=0) == "compaction"
    assert cause(_archived(compacted), one, copies=0) == "unexplained"
