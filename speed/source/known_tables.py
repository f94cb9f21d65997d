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
from tandem.ledger.table_versions import TableVersions, table_versions
from tandem.speed.micro_batch.task import KnownVersions
from tandem.views.arrow.arrays import to_ipc
from tandem.views.errors import TandemError
from tandem.views.source.source import Source
from tandem.views.table import looked_up
from tandem.views.view import View

_LOOK_S: Final = 0.02
_START: Final = 10
_MB: Final = 2**20


class TableTooLarge(TandemError, code="table-too-large"):
    """A table has more versions than the speed layer may have in memory."""


@dataclass
class KnownTables:
    """The versions of some tables, by the name of the view of the versions, as a release counts them.

    `fingerprints` are those of these views, `most_mb` is the most megabytes of one of them.
    """

    tables: Tables
    release: int
    views: Mapping[str, View]
    fingerprints: Mapping[str, str]
    most_mb: int
    _known: dict[str, TableVersions] = field(default_factory=dict, init=False, repr=False)
    _bases: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)
    _added: dict[str, bytes] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._followers = {source: Follower(self.tables, self.release, source) for source in self.sources}

    @property
    def sources(self) -> dict[str, Source]:
        """The sources of the tables, by name."""
        return {view.source.name: view.source for view in self.views.values()}

    @property
    def ends(self) -> dict[str, TableEnds]:
        """By source, up to where its log is known."""
        return {self.views[name].source.name: TableEnds(each.end, each.end) for name, each in self._known.items()}

    def newest(self, state: Publication) -> KnownVersions:
        """What tasks look up in now; `state` is the newest state of the release. Raises TableTooLarge, Unreadable."""
        self.poll(state)
        return KnownVersions({name: (base, self._added[name]) for name, base in self._bases.items()}, self.ends)

    def poll(self, state: Publication) -> None:
        """Read what is new."""
        commits = {source: follower.poll() for source, follower in self._followers.items()}
        tails = {source: chain(each, state.cut(source)).commits for source, each in commits.items()}
        for name, view in self.views.items():
            source, earlier = view.source.name, self._known.get(name)
            batch = state.views.get(name, BatchView(self.fingerprints[name]))
            there = self._known[name] = table_versions(
                self.tables, view, batch, state.cut(source), tails[source], earlier=earlier
            )
            if earlier is None or there.base is not earlier.base:
                self._refuse_large(view, there)
                self._bases[name] = to_ipc(there.base.versions)
            if earlier is None or there.new is not earlier.new:
                self._added[name] = to_ipc(there.additions.versions) if there.new.num_rows else b""

    def _refuse_large(self, view: View, there: TableVersions) -> None:
        megabytes = there.base.versions.nbytes / _MB
        if megabytes > self.most_mb:
            raise TableTooLarge(
                f"the versions of {view.name} take {megabytes:.0f} MB, and speed.table_mb is {self.most_mb}: raise it, "
                "or take fewer fields into the table"
            )


def tables_of_views(tables: Tables, release: Release, views: Mapping[str, View], most_mb: int) -> KnownTables | None:
    """The tables in which these views of a release look up; None if they look up in nothing."""
    of_tables = {name: each for view in views.values() for name, each in looked_up(view).items()}
    return KnownTables(tables, release.number, of_tables, release.views, most_mb) if of_tables else None


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
