"""Expire records: of a source with `keep`, the first records of each partition that are older and that no view needs.

A record stays if its file, or a file with its event, has a record or an event that stays, or begins after such a file. A record
stays for `Source.keep` after its timestamp, until the newest event below the live cut is that much newer. An event stays until
its window has left every view of every retained state: a full recompute of the windows that stay then gives the same answer.

The positions are recorded before the first row is removed (ledger/log/erasures.py). So a run that was killed is finished by the
next one, and nothing brings the records back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from tandem.batch.maintain.remove_rows import log_tables, remove_rows
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.files.file_ranges import EVENTS, RECORDS, FileRange, table_ranges
from tandem.ledger.files.rows_at import may_hold
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.erasures import Erasure, Erasures
from tandem.ledger.log.positions import LOG_START, Position, lower, ranges
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release
from tandem.views.project import project
from tandem.views.project.project import Project
from tandem.views.source.source import Source

BY: Final = "maintain"


@dataclass(frozen=True)
class KeptStates:
    """The states that a reader may use, the live one among them, and the releases that may still need records.

    Args:
        definitions: those of each of these states' releases, by number.
    """

    live: Publication
    states: Sequence[Publication]
    releases: Sequence[Release]
    definitions: Mapping[int, Project]

    @classmethod
    def load(
        cls, live: Publication, states: Iterable[Publication], stored: Iterable[Release], needed: Sequence[Release]
    ) -> "KeptStates | None":
        """Load the definitions of all states; None if no source of the live release declares how long it keeps records.

        `stored` are the releases that were read before the states, `needed` those that may still need records. None also if a
        release was published meanwhile: the next run knows it. Raises TandemError.
        """
        every = list(states)
        by_number = {release.number: release for release in stored}
        if not {live.release, *(state.release for state in every)} <= by_number.keys():
            return None
        definitions = {live.release: project.load_files(by_number[live.release].files)}
        if all(source.keep is None for source in definitions[live.release].sources.values()):
            return None
        for number in {state.release for state in every} - definitions.keys():
            definitions[number] = project.load_files(by_number[number].files)
        return cls(live, every, needed, definitions)

    @property
    def spans(self) -> dict[str, timedelta]:
        """By source with `keep`, the time of which one file may have records: a quarter of it, as for the windows of a view."""
        sources = self.definitions[self.live.release].sources
        return {name: source.keep / 4 for name, source in sources.items() if source.keep is not None}

    def of(self, source: str) -> list[Publication]:
        """The states that have the source."""
        return [state for state in self.states if source in self.definitions[state.release].sources]

    def below(self, source: str) -> Position:
        """The position below which every state has counted; the log's start while a release has no state yet."""
        counted = {state.release for state in self.of(source)}
        if any(source in release.sources and release.number not in counted for release in self.releases):
            return LOG_START
        return lower(*(state.cut(source) for state in self.of(source)))

    def first_window(self, source: str) -> datetime | None:
        """The start of the first window that stays in some view of the source; None if a view keeps all its windows."""
        first = None
        for state in self.of(source):
            for name, view in self.definitions[state.release].views.items():
                if view.source.name == source:
                    stays = state.views[name].first_window if name in state.views else None
                    if stays is None:
                        return None
                    first = stays if first is None else min(first, stays)
        return first


def finish_expiries(tables: Tables, source: str, *, at: datetime) -> list[Erasure]:
    """Remove the rows of expiries that a killed run recorded. Raises Conflict, Unreadable, Unwritable."""
    erasures = Erasures(tables)
    return [_remove(tables, erasure, at=at) for erasure in erasures.of(source) if erasure.stage == "expiring"]


def expire_records(tables: Tables, kept: KeptStates, name: str, *, at: datetime) -> Erasure | None:
    """Remove the records of a source that it keeps no longer; None if all of them stay.

    The caller holds the locks of views and archive, and the archive is checked. Raises Conflict, Unreadable, Unwritable.
    """
    source = kept.definitions[kept.live.release].sources.get(name)
    first, newest, below = kept.first_window(name), kept.live.newest.get(name), kept.below(name)
    if source is None or source.keep is None or first is None or newest is None or not below.offsets:
        return None
    events = list(chain.from_iterable(_events(tables, kept, source)))
    archive = table_ranges(tables, tables.archive(name), RECORDS, "timestamp")
    staying = [*staying_files(archive, newest - source.keep), *staying_files(events, first)]
    end = at_a_file(archive, start_of(staying, below))
    leaving = ranges(LOG_START, end, ArchiveLedger(tables, name).firsts())
    until = max((file.times[1] for file in events if file.times is not None and may_hold(file, leaving)), default=None)
    erasure = Erasures(tables).intend(name, leaving, by=BY, at=at, stage="expiring", until=until)
    return None if erasure is None else _remove(tables, erasure, at=at)


def staying_files(files: Iterable[FileRange], since: datetime) -> list[FileRange]:
    """The files that may have a time from `since` on."""
    return [file for file in files if file.times is None or file.times[1] >= since]


def start_of(files: Iterable[FileRange], below: Position) -> Position:
    """The greatest position at or below `below` with no row of these files below it."""
    offsets = dict(below)
    for file in files:
        for partition, end in offsets.items():
            if file.overlap(partition, (0, end)):
                offsets[partition] = min(end, file.offsets[0])
    return Position.of(offsets)


def at_a_file(files: Iterable[FileRange], position: Position) -> Position:
    """The position, or before it the start of a file of one partition that goes on above it: whole files leave."""
    offsets = dict(position)
    for file in files:
        if (partition := file.partition) is not None and file.offsets[0] < offsets.get(partition, 0) < file.offsets[1]:
            offsets[partition] = file.offsets[0]
    return Position.of(offsets)


def _events(tables: Tables, kept: KeptStates, source: Source) -> Iterable[list[FileRange]]:
    """The files of events under each decoder that a release may need, with the times of the source's events."""
    for release in kept.releases:
        if source.name in release.sources:
            definition = kept.definitions[release.number].sources[source.name]
            yield table_ranges(tables, tables.events(source.name, release.sources[source.name]), EVENTS, definition.time_column)


def _remove(tables: Tables, erasure: Erasure, *, at: datetime) -> Erasure:
    for address, where in log_tables(tables, erasure.source):
        remove_rows(tables, address, where, erasure.ranges, at=at)
    return Erasures(tables).advance(erasure, "expired", by=BY, at=at)
