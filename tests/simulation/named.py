"""The files that may still be read, by the rows of publications and standing releases, and a check that they exist."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise

from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.publish.batch_parts import files_of
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import StandingReleases
from tests.simulation.world import World


@dataclass
class Named:
    """Of a world, at some judgement: `seen` are the tables that were there, `shared` those that a view has by another's name."""

    world: World
    seen: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)

    def judge(self) -> None:
        """Of every state that may still be read: each file of its batch views is there, and no table of its release is gone."""
        store, tables = self.world.store, self.world.tables
        stored = {release.number: release for release in Releases(tables).every()}
        for state in _may_be_read(self.world):
            for name, view in state.views.items():
                address = view.address(tables, name)
                self.shared |= {address} if view.at else set()
                for part in view.parts:
                    try:
                        _, files = files_of(tables, address, part)
                    except Unreadable as error:
                        raise AssertionError(f"{_told(state)} names view {name}: {error}") from error
                    lost = {file.path for file in files} - store.tables[address].content.keys()
                    assert not lost, f"{_told(state)} names view {name}: {lost} of table {address} are deleted"
            sources = stored[state.release].sources.items()
            folders = [tables.realtime_of(state.release), *(tables.events(*pair) for pair in sources)]
            folders += [tables.control("summaries", *pair) for pair in sources]
            # With the slash: release 1 does not need the tables of release 10.
            needed = tuple(f"{folder}/" for folder in folders)
            gone = {address for address in self.seen - store.tables.keys() if f"{address}/".startswith(needed)}
            assert not gone, f"{_told(state)} needs {gone}"
        self.seen |= store.tables.keys()

    def judge_left(self) -> None:
        """After `maintain`, long after all else: no table of a view is left that nothing needs.

        What a promotion was about to publish that was killed then is needed until another publication is there.
        """
        tables = self.world.tables
        live = Publications(tables).latest()
        assert live is not None
        promised = [
            one.state for one in StandingReleases(tables).records() if one.stage == "built" and one.state.parent >= live.number
        ]
        states = [*_may_be_read(self.world), *(state for state in promised if state.kind in ("promote", "rollback"))]
        views = tables.view("", "").rstrip("/")
        needed = {view.address(tables, name) for state in states for name, view in state.views.items()}
        # On an object store a dropped table stays, empty.
        there = {address for address in self.world.store.tables if tables.local or self.world.rows(address)}
        left = {address for address in there if address.startswith(views)} - needed
        assert not left, f"nothing needs {left}"


def _may_be_read(world: World) -> Iterator[Publication]:
    """The publications that `[keep]` retains, and the newest state of each release that stands."""
    keep, now = world.keep, world.time
    every, records = Publications(world.tables).history(), StandingReleases(world.tables).records()
    since = now - max(timedelta(days=keep.days), timedelta(hours=keep.file_hours))
    yield from (before for before, after in pairwise(every) if after.at > since)
    yield from every[-keep.publications :]
    ended = {before.release: after.at for before, after in pairwise(every)}
    for release in {each.release for each in every} | {one.state.release for one in records}:
        live = max((each.number for each in every if each.release == release), default=0)
        said = [one for one in records if one.state.release == release and one.state.parent >= live]
        if said and said[-1].over:
            continue
        if not live or every[-1].release == release or ended[release] > now - timedelta(days=keep.release_days):
            yield said[-1].state if said else every[live - 1]


def _told(state: Publication) -> str:
    return f"publication {state.number} of release {state.release}" if state.number else f"release {state.release}"
