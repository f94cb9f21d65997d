"""Maintain all tables except realtime ones, which the speed layer maintains: compact, expire, drop, vacuum.

ledger/delta/delete_table_files.py has the rule of who may delete. A file first leaves its table, and is deleted `keep.file_hours`
later. A batch version is removed once no publication names it that is retained or was live within these hours. So readers can
finish, a killed run leaves every table readable, and the next run continues.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from tandem.batch.maintain import compact
from tandem.batch.maintain.compact import MostTime
from tandem.batch.maintain.expire_records import KeptStates, expire_records, finish_expiries
from tandem.batch.runtime import scratch
from tandem.batch.runtime.table_locks import locked
from tandem.infra.settings import Settings
from tandem.ledger.delta import delta_tables, retries
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delete_table_files import Freed, checkpoint, vacuum
from tandem.ledger.delta.one_writer import write_leases
from tandem.ledger.files.file_ranges import EVENTS, RECORDS, PositionColumns
from tandem.ledger.log.adoptions import Adoptions
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.erasures import Erasure
from tandem.ledger.publish import publications
from tandem.ledger.publish.batch_parts import paths
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release, Releases
from tandem.ledger.publish.standing import Followed, StandingReleases
from tandem.views.instant import APPEND_TIME

_LOCKS: Final = ("views", "archive")
"""In the order in which a recompute takes them."""
_TIMES: Final = {RECORDS: "timestamp", EVENTS: APPEND_TIME}
"""The columns with the records' timestamps. Files of the quarantine have no bounds of them."""


@dataclass(frozen=True)
class Upkeep:
    """What was done for one table: `compacted` files became `into` files, `expired` were removed, `freed` were deleted."""

    table: str
    compacted: int = 0
    into: int = 0
    expired: int = 0
    freed: Freed = field(default_factory=Freed)


@dataclass(frozen=True)
class Maintained:
    """The retained publications, what was done for each table, the dropped folders, and the deleted scratch files.

    `expired` are the records that their sources keep no longer.
    """

    retained: tuple[int, ...]
    tables: tuple[Upkeep, ...]
    discarded: tuple[str, ...]
    scratch: Freed
    expired: tuple[Erasure, ...] = ()

    @property
    def freed(self) -> Freed:
        """All files that were deleted."""
        each = [*(table.freed for table in self.tables), self.scratch]
        return Freed(sum(freed.files for freed in each), sum(freed.bytes for freed in each))


def run(settings: Settings, *, now: Callable[[], datetime], say: Callable[[str], None]) -> Maintained:
    """Maintain the tables under the locks of recompute and archive, which wait meanwhile. Raises TandemError."""
    with locked(settings, *_LOCKS, what="tandem maintain", now=now, say=say) as tables:
        return maintain_tables(tables, settings, now())


def maintain_tables(tables: Tables, settings: Settings, at: datetime) -> Maintained:
    """Maintain the tables. The caller holds the locks. Raises TandemError."""
    # From here on no run before this one publishes or records what is removed here.
    standing = StandingReleases(tables)
    standing.claim()
    # Read before the retained states, so that no record is known here that is missing there.
    stored, history, records = Releases(tables).every(), standing.publications.history(), standing.records()
    keep = settings.keep
    since = at - max(timedelta(days=keep.days), timedelta(hours=keep.file_hours))
    # For `file_hours` after its last day, processes may still write to or read a release's tables.
    days = keep.release_days + keep.file_hours / 24
    kept = Followed(standing, days=days).retained(at, publications=keep.publications, since=since)
    if not kept:
        # Without publications it is unknown what is needed. If they were lost, it is everything.
        return Maintained((), (), (), scratch.clear(tables))
    recent = [*kept, *(record.state for record in records if record.state.at > since)]
    named = {state.release for state in recent}
    # A young release may be about to be applied.
    needed = [release for release in stored if release.number in named or release.at > since]
    states = [*history, *(record.state for record in records)]
    discarded = drop_unneeded(tables, stored, states, needed=needed, kept=recent)
    # The first publication may be newer than the history that was read.
    kept_states = KeptStates.load(history[-1], recent, stored, needed) if history else None
    expired = list(_expire(tables, kept_states, needed, at))
    done = [
        *_logs(tables, needed, {} if kept_states is None else kept_states.spans, settings, at),
        *_views(tables, view_tables(tables, needed, recent), kept, settings, at),
        *_journals(tables, needed, settings),
    ]
    return Maintained(
        retained=tuple(each.number for each in publications.whole(tables, history) if each in kept),
        tables=tuple(done),
        discarded=tuple(tables.name(folder) for folder in discarded),
        scratch=scratch.clear(tables),
        expired=tuple(expired),
    )


def _expire(tables: Tables, kept: KeptStates | None, needed: list[Release], at: datetime) -> Iterator[Erasure]:
    """Remove the records that their sources keep no longer, those first that a killed run recorded."""
    for source in _sources(needed):
        yield from finish_expiries(tables, source, at=at)
        if kept is not None and _is_whole(tables, source) and (expired := expire_records(tables, kept, source, at=at)):
            yield expired


def _sources(releases: Iterable[Release]) -> list[str]:
    return list(dict.fromkeys(name for release in releases for name in release.sources))


def _is_whole(tables: Tables, source: str) -> bool:
    """Whether nothing may have to leave the archive with its file, and no file of it is in no commit yet.

    Files of a run that is not checked may have to leave the archive, and no others with them. The files of a recorded adoption
    are in no commit until the next `tandem adopt`.
    """
    ledger = ArchiveLedger(tables, source)
    return ledger.unchecked() is None and Adoptions(tables, source).pending(ledger.archived()) is None


def _logs(
    tables: Tables, needed: list[Release], spans: Mapping[str, timedelta], settings: Settings, at: datetime
) -> Iterator[Upkeep]:
    """Compact and vacuum. Of a source with a span, a file has records of at most this time."""
    for source in _sources(needed):
        known = ArchiveLedger(tables, source).runs()
        if not known:
            continue
        _claim(tables, tables.archive(source))
        addresses: dict[str, PositionColumns] = {tables.archive(source): RECORDS} if _is_whole(tables, source) else {}
        for release in needed:
            if decoder := release.sources.get(source):
                addresses |= {tables.events(source, decoder): EVENTS, tables.quarantine(source, decoder): RECORDS}
        for address, where in addresses.items():
            _claim(tables, address)
            size = settings.batch.task_mb << 20
            most = MostTime(_TIMES[where], spans[source]) if source in spans else None
            compacted, into = compact.compact(tables, address, where, known[-1].end, file_bytes=size, at=at, most=most)
            yield Upkeep(tables.name(address), compacted, into, freed=_vacuum(tables, address, settings))


def _views(tables: Tables, addresses: list[str], kept: list[Publication], settings: Settings, at: datetime) -> Iterator[Upkeep]:
    for address in addresses:
        _claim(tables, address)
        expired = expire_versions(tables, address, kept, at=at)
        yield Upkeep(tables.name(address), expired=expired, freed=_vacuum(tables, address, settings))


def _journals(tables: Tables, needed: list[Release], settings: Settings) -> Iterator[Upkeep]:
    """Vacuum the journals and leases, which merge their files themselves and leave the old ones on the disk."""
    decoders = dict.fromkeys(pair for release in needed for pair in release.sources.items())
    # A lease replaces its row every few seconds, and needs none of its log. That of the speed layer is held all the time.
    taken = write_leases.names(tables)
    for name in taken:
        handle = delta_tables.open_table(tables, tables.control("leases", name))
        if handle is not None:
            checkpoint(handle)
    names = [
        ("releases",),
        ("publications",),
        ("standing",),
        ("diffs",),
        ("gaps",),
        ("erasures",),
        ("fed_files",),
        ("audits",),
        ("rates",),
        ("tokens",),
        ("schemas",),
        *dict.fromkeys((kind, source) for source, _ in decoders for kind in ("runs", "topics", "firsts", "checked")),
        *(("summaries", *pair) for pair in decoders),
        *((kind, name) for kind in ("alerts", "outboxes") for name in tables.names("control", kind)),
        *(("leases", name) for name in taken),
    ]
    for address in (tables.control(*name) for name in names):
        yield Upkeep(tables.name(address), freed=_vacuum(tables, address, settings))


def _claim(tables: Tables, address: str) -> None:
    """Raise the table's token before anything is listed: no run before this one commits the files that it has written."""
    handle = delta_tables.open_table(tables, address)
    if handle is not None:
        retries.claim(handle, tables.lease(address))


def _vacuum(tables: Tables, address: str, settings: Settings) -> Freed:
    handle = delta_tables.open_table(tables, address)
    return Freed() if handle is None else vacuum(handle, hours=settings.keep.file_hours, lease=tables.lease(address))


def view_tables(tables: Tables, releases: Iterable[Release], states: Iterable[Publication]) -> list[str]:
    """The addresses of the views of these states and, for releases without a state, the addresses with which they would begin.

    A state has the addresses of its views, which may differ from those of its release: a table may have been created for another
    release or name.
    """
    stated = list(states)
    numbers = {state.release for state in stated}
    own = [tables.view(*pair) for release in releases if release.number not in numbers for pair in release.views.items()]
    return [*dict.fromkeys([*own, *(live.address(tables, name) for state in stated for name, live in state.views.items())])]


def drop_unneeded(
    tables: Tables,
    releases: Iterable[Release],
    states: Iterable[Publication],
    *,
    needed: Iterable[Release],
    kept: Iterable[Publication],
) -> list[str]:
    """Drop the tables of these releases and states that no `needed` release and no `kept` state has. Returns their folders.

    A dropped table can be built again from the archive or the log. Each folder is dropped by one rename.
    """
    every, keep = list(releases), list(needed)
    numbers = {release.number for release in keep}
    decoders = {pair for release in keep for pair in release.sources.items()}
    views = set(view_tables(tables, keep, kept))
    folders: list[str] = []
    for release in every:
        for source, decoder in release.sources.items():
            if (source, decoder) not in decoders:
                # The summaries first: they state that the tables are complete.
                folders += [tables.control("summaries", source, decoder), tables.decoded(source, decoder)]
        if release.number not in numbers:
            folders.append(tables.realtime_of(release.number))
    known = [*view_tables(tables, every, ()), *view_tables(tables, (), states)]
    folders += [address for address in known if address not in views]
    return [folder for folder in dict.fromkeys(folders) if scratch.drop(tables, folder)]


def expire_versions(tables: Tables, address: str, kept: Iterable[Publication], *, at: datetime) -> int:
    """Remove the batch versions that none of these publications names. Returns the number of files.

    The files stay on the disk for their readers. For the table's one writer. Raises Conflict, Unwritable, Unreadable.
    """
    handle = delta_tables.open_table(tables, address)
    if handle is None:
        return 0
    named = {
        part.version
        for publication in kept
        for name, live in publication.views.items()
        if live.address(tables, name) == address
        for part in live.parts
    }
    old = [path for path, version in paths(handle).items() if version not in named]
    if old:
        delta_tables.conditional_exchange(handle, old, [], at=at, lease=tables.lease(address))
    return len(old)
