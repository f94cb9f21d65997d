"""Rules 1 to 9 together: for any schedule, merged answers equal the log.

A state machine on real Delta tables: speed layers that commit, crash before or after a commit, are fenced; batch runs that
choose, bridge, reserve and publish, two at a time; compaction and expiry; a log whose second partition comes late. After
every step a reader answers from the live and every other retained publication, and each answer is compared with the log.
"""

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from tandem.ledger.cut_decision import take
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Unwritable
from tandem.ledger.log.positions import LOG_START, Position, distance, upper
from tandem.ledger.publish.publications import NotPublishable, Publications, retained
from tandem.ledger.publish.standing import cut_of
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.follower import Follower
from tandem.ledger.realtime.tiling import chain, end
from tandem.ledger.realtime_writer import NewerEpoch, NotContiguous, Writer
from tests.ledger.tiny import AT, SOURCE, added, at, claim, decode, first, fold, merge, partial, publish_cut

FAULTS = ["none"] * 6 + ["before", "after", "crash before", "crash after"]


@dataclass
class Run:
    """A batch run between reserving its cut and publishing."""

    cut: Position
    counted: tuple[int, int] = field(init=False)

    def __post_init__(self) -> None:
        self.counted = partial(LOG_START, self.cut)


class Schedules(RuleBasedStateMachine):
    """`log_end` is what the log holds, `archived` how far the archive has come; a batch version is known by its cut."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="ledger-")
        self.tables = Tables(self.folder)
        first(self.tables)
        self.log_end = self.archived = LOG_START
        self.versions = {LOG_START: (0, 0)}
        self.writers: list[Writer] = []
        self.runs: list[Run] = []
        self.follower = Follower(self.tables, 1, SOURCE)
        self.lazy = Follower(self.tables, 1, SOURCE)
        self.reached, self.seen = LOG_START, tuple[Commit, ...]()
        self.newest_epoch = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @precondition(lambda self: 0 < len(self.writers) < 3)
    @rule()
    def a_speed_layer_starts(self) -> None:
        self.writers.append(claim(self.tables))
        assert self.writers[-1].epoch > self.newest_epoch
        self.newest_epoch = self.writers[-1].epoch

    @rule(
        data=st.data(), more=st.tuples(st.integers(0, 3), st.integers(0, 2)), fault=st.sampled_from(FAULTS), archive=st.booleans()
    )
    def a_micro_batch(self, data: st.DataObject, more: tuple[int, int], fault: str, *, archive: bool) -> None:
        """Events arrive, the archive copies them or not, and a speed layer, the newest or an older one, takes some or all."""
        self.log_end = at(*(self.log_end.get(("T", p), 0) + n for p, n in enumerate(more)))
        self.archived = self.log_end if archive else self.archived
        if not self.writers:
            self.a_speed_layer_starts()
        writer = data.draw(st.sampled_from(self.writers[::-1]))
        ahead = upper(writer.end, self.log_end)
        halfway = at(*(min(ahead.get(("T", p), 0), writer.end.get(("T", p), 0) + 1) for p in range(2)))
        to = data.draw(st.sampled_from([ahead, halfway]))
        if to != writer.end:
            self._commit(writer, to, fault)

    def _commit(self, writer: Writer, to: Position, fault: str) -> None:
        """A speed layer keeps on after an error that it survives; a crash takes it away."""
        with pytest.MonkeyPatch.context() as patch:
            if fault != "none":
                patch.setattr(delta_tables, "conditional_append", _broken(after="after" in fault))
            try:
                writer.append(fold(writer.end, to, writer.epoch))
            except NewerEpoch:
                self.writers.remove(writer)
                assert writer.epoch < self.newest_epoch, "the newest writer is never fenced"
            except (NotContiguous, Unwritable):
                pass
        if "crash" in fault and writer in self.writers:
            self.writers.remove(writer)

    @precondition(lambda self: len(self.runs) < 2)
    @rule(lag=st.sampled_from([0, 0, 2]), patience=st.sampled_from([0, 2, 1000, 1000]))
    def a_batch_run_starts(self, lag: int, patience: int) -> None:
        """It archives first, up to the log's end or a little before, then chooses, bridges and reserves."""
        reached = at(*(max(0, self.log_end.get(("T", p), 0) - lag) for p in range(2)))
        self.archived = upper(self.archived, reached)
        cut = take(self.tables, 1, SOURCE, archive_end=self.archived, patience=patience, by="test", at=AT)
        self.runs.append(Run(cut))

    @precondition(lambda self: self.runs)
    @rule()
    def a_batch_run_crashes(self) -> None:
        self.runs.pop(0)

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def a_batch_run_publishes(self, data: st.DataObject) -> None:
        run = self.runs.pop(data.draw(st.integers(0, len(self.runs) - 1)))
        live = cut_of(self.tables, 1, SOURCE)
        try:
            publish_cut(self.tables, run.cut)
        except NotPublishable:
            assert not live.at_or_below(run.cut), "a reserved cut that does not step back is always publishable"
        else:
            self.versions[run.cut] = run.counted

    @precondition(lambda self: self.writers)
    @rule(fanout=st.sampled_from([2, 2, 4]))
    def compact(self, fanout: int) -> None:
        live, protect = cut_of(self.tables, 1, SOURCE), [*self._retained(), self.archived]
        self._keep_up(lambda writer: writer.compact(merge, live=live, protect=protect, at=AT, fanout=fanout))

    @precondition(lambda self: self.writers)
    @rule()
    def expire(self) -> None:
        self._keep_up(lambda writer: writer.expire(self._retained(), at=AT))

    def _keep_up(self, work: Callable[[Writer], int]) -> None:
        writer = self.writers[-1]
        try:
            work(writer)
        except NewerEpoch:
            self.writers.remove(writer)
            assert writer.epoch < self.newest_epoch, "the newest writer is never fenced"

    def _retained(self) -> list[Position]:
        return [publication.cut(SOURCE) for publication in retained(Publications(self.tables).history(), keep=2, since=AT)]

    @invariant()
    def what_is_merged_is_what_the_log_holds(self) -> None:
        commits = self.follower.poll()
        for cut in self._retained():
            whole = chain(commits, cut)
            assert whole.problem is None, whole.problem
            realtime = [data for commit in whole.commits for data in commit.partials.values()]
            counted = [sum(pair) for pair in zip(self.versions[cut], decode(realtime), strict=True)]
            assert tuple(counted) == partial(LOG_START, whole.end), (cut, whole.end)
        live = Publications(self.tables).latest()
        assert live is not None
        now = chain(commits, live.cut(SOURCE)).end
        assert self.reached.at_or_below(now), "a reader never steps back"
        self.reached = now

    @invariant()
    def following_gives_each_offset_once(self) -> None:
        """By a second reader, who looks only now and then and so finds several steps at once."""
        if distance(LOG_START, self.log_end) % 3 == 0:
            return
        before, self.seen = self.seen, self.lazy.poll()
        new, reached = added(self.seen, before), end(before)
        if new is None or reached is None:
            return
        tiled = chain(new, reached, across_bridges=True)
        assert tiled.problem is None, tiled.problem
        assert tiled.end == end(self.seen)


def _broken(*, after: bool):
    """A commit that ends in an error, before or after it has landed; look-ups work again right away."""
    real, broken = delta_tables.conditional_append, [True]

    def append(handle: DeltaTable, rows: pa.Table) -> None:
        if not (broken and broken.pop()):
            real(handle, rows)
            return
        if after:
            real(DeltaTable(handle.table_uri, version=handle.version()), rows)
        raise Unwritable("the disk is full, or the connection was lost")

    return append


def test_any_schedule_gives_the_answers_of_the_log() -> None:
    run_state_machine_as_test(
        Schedules, settings=settings(settings(), max_examples=settings().max_examples // 5, stateful_step_count=30)
    )
