"""The tables in which a source's views look up, as far as the speed layer of their own release has counted them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tandem.infra import kafka
from tandem.infra.kafka.source_topics import topics_of
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.batch_parts import BatchView
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release
from tandem.ledger.realtime.commits import TableEnds
from tandem.ledger.realtime.follower import Follower
from tandem.ledger.realtime.tiling import chain
from tandem.ledger.states_by_key import StatesByKey, in_order
from tandem.ledger.table_versions import LargeVersions, Overflow, TableVersions, versions_within
from tandem.speed.micro_batch.task import KnownVersions, LargeTable, SmallTable
from tandem.views.arrow.arrays import to_ipc
from tandem.views.composite.table import looked_up
from tandem.views.source.source import Source
from tandem.views.view import View

_LOOK_S: Final = 0.02
_START: Final = 10


@dataclass
class KnownTables:
    """The versions of some tables, by the name of the view of the versions, as a release counts them.

    `fingerprints` are those of these views; `overflow` says where the states of a table that is too large for memory are.
    """

    tables: Tables
    release: int
    views: Mapping[str, View]
    fingerprints: Mapping[str, str]
    overflow: Overflow
    _known: dict[str, TableVersions | LargeVersions] = field(default_factory=dict, init=False, repr=False)
    _bases: dict[str, bytes | tuple[StatesByKey, ...]] = field(default_factory=dict, init=False, repr=False)
    _added: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)
    _publication: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        self._followers = {source: Follower(self.tables, self.release, source) for source in self.sources}

    @property
    def sources(self) -> dict[str, Source]:
        """The sources of the tables, by name."""
        return {view.source.name: view.source for view in self.views.values()}

    @property
    def ends(self) -> dict[str, TableEnds]:
        """By source, up to where its log is known."""
        return {
            self.views[name].source.name: TableEnds(each.end, each.end, self._publication) for name, each in self._known.items()
        }

    def newest(self, state: Publication) -> KnownVersions:
        """What tasks look up in now; `state` is the newest state of the release. Raises Unreadable, Unwritable."""
        self.poll(state)
        versions = {
            name: LargeTable(base, self._added[name]) if isinstance(base, tuple) else SmallTable(base, self._added[name])
            for name, base in self._bases.items()
        }
        return KnownVersions(versions, self.ends)

    def poll(self, state: Publication) -> None:
        """Read what is new."""
        self._publication = state.number
        for source, follower in self._followers.items():
            if follower.dropped.at_or_below(cut := state.cut(source)):
                follower.dropped = cut
            else:  # after a rollback the partials that were dropped are needed again
                self._followers[source] = Follower(self.tables, self.release, source, cut)
        commits = {source: follower.poll() for source, follower in self._followers.items()}
        tails = {source: chain(each, state.cut(source)).commits for source, each in commits.items()}
        for name, view in self.views.items():
            source, earlier = view.source.name, self._known.get(name)
            batch = state.views.get(name, BatchView(self.fingerprints[name]))
            there = self._known[name] = versions_within(
                self.tables, view, batch, state.cut(source), tails[source], overflow=self.overflow, earlier=earlier
            )
            if earlier is None or there.base is not earlier.base:
                self._bases[name] = there.base if isinstance(there, LargeVersions) else to_ipc(there.base.versions)
            if earlier is None or there.new is not earlier.new:
                self._added[name] = _beside(there)
            for file in {*_files(earlier)} - {*_files(there)}:
                file.delete()


def _beside(there: TableVersions | LargeVersions) -> bytes:
    """What commits have added to the base, as tasks read it."""
    if isinstance(there, LargeVersions):
        return to_ipc(in_order(there.view, there.new))
    return to_ipc(there.additions.versions) if there.new.num_rows else b""


def _files(there: TableVersions | LargeVersions | None) -> tuple[StatesByKey, ...]:
    return there.base if isinstance(there, LargeVersions) else ()


def tables_of_views(
    tables: Tables, release: Release, views: Mapping[str, View], overflow: Callable[[], Overflow]
) -> KnownTables | None:
    """The tables in which these views of a release look up; None if they look up in nothing."""
    of_tables = {name: each for view in views.values() for name, each in looked_up(view).items()}
    return KnownTables(tables, release.number, of_tables, release.views, overflow()) if of_tables else None


@dataclass(frozen=True)
class Patience:
    """How long a micro-batch waits until the speed layer has counted all that the logs of its tables had when it began.

    It waits as long as their commits come, and `seconds` for commits that do not come; for the first ones of a table ten times as
    long, since all sources start at once. `ended` ends the wait early.
    """

    connection: kafka.BrokerConnection
    seconds: float
    ended: Callable[[float], bool]
    clock: Callable[[], float] = time.monotonic

    def wait(self, looked_up_in: KnownTables, poll: Callable[[], object]) -> None:
        """Poll until the ends of the logs are known. Raises NoBroker."""
        if not self.seconds:
            return
        wanted = {name: self._end(source) for name, source in looked_up_in.sources.items()}
        reached = looked_up_in.ends
        deadline = self.clock() + self.seconds * (1 if all(ends.least.offsets for ends in reached.values()) else _START)
        while _behind(looked_up_in.ends, wanted) and self.clock() < deadline and not self.ended(_LOOK_S):
            poll()
            if looked_up_in.ends != reached:
                reached, deadline = looked_up_in.ends, self.clock() + self.seconds

    def _end(self, source: Source) -> Position:
        try:
            return Position.of(kafka.ends(self.connection, topics_of(self.connection, source)))
        except kafka.NoTopic:  # its own follower says so
            return Position()


def _behind(ends: Mapping[str, TableEnds], wanted: Mapping[str, Position]) -> Sequence[str]:
    """The sources whose log had more."""
    return [name for name, end in wanted.items() if not end.at_or_below(ends[name].least)]
