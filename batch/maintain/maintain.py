"""Maintain all tables except realtime ones, which the speed layer maintains: compact, expire, drop, vacuum.

ledger/delta/vacuum.py has the rule of who may delete. A file is removed from its table first and deleted `keep.file_hours` later.
A batch version is removed once no publication names it that is retained or was live within these hours. So readers can finish,
a killed run leaves every table readable, and the next run continues.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from tandem.batch.maintain import compact
from tandem.batch.maintain.drop_tables import drop_unneeded, view_tables
from tandem.batch.maintain.expire_versions import expire_versions
from tandem.batch.runtime import scratch
from tandem.batch.runtime.exclusive import locked
from tandem.infra.settings import Settings
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.vacuum import Freed, checkpoint, vacuum
from tandem.ledger.files.file_ranges import EVENTS, RECORDS, Columns
from tandem.ledger.log import archive_runs
from tandem.ledger.publish import publications, releases, standing
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release
from tandem.ledger.publish.standing import Followed

_LOCKS: Final = ("views", "archive")
"""In the order in which a recompute takes them."""


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
    """The retained publications, what was done for each table, the dropped folders, and the deleted scratch files."""

    retained: tuple[int, ...]
    tables: tuple[Upkeep, ...]
    discarded: tuple[str, ...]
    scratch: Freed

    @property
    def freed(self) -> Freed:
        """All files that were deleted."""
        each = [*(table.freed for table in self.tables), self.scratch]
        return Freed(sum(freed.files for freed in each), sum(freed.bytes for freed in each))


def run(settings: Settings, *, now: Callable[[], datetime], say: Callable[[str], None]) -> Maintained:
    """Maintain the tables under the locks of recompute and archive, which wait meanwhile. Raises TandemError."""
    with locked(settings, *_LOCKS, what="tandem maintain", now=now, say=say) as tables:
        return _maintain(tables, settings, now())


def _maintain(tables: Tables, settings: Settings, at: datetime) -> Maintained:
    # From here on no run before this one publishes or records what is removed here.
    publications.claim(tables)
    standing.claim(tables)
    # Read before the retained states, so that no record is known here that is missing there.
    stored, history, records = releases.every(tables), publications.history(tables), standing.records(tables)
    keep = settings.keep
    since = at - max(timedelta(days=keep.days), timedelta(hours=keep.file_hours))
    # For `file_hours` after its last day, processes may still write to or read a release's tables.
    days = keep.release_days + keep.file_hours / 24
    kept = Followed(tables, days=days).retained(at, publications=keep.publications, since=since)
    if not kept:
        # Without publications it is unknown what is needed. If they were lost, it is everything.
        return Maintained((), (), (), scratch.clear(tables))
    recent = [*kept, *(record.state for record in records if record.state.at > since)]
    named = {state.release for state in recent}
    # A young release may be about to be applied.
    needed = [release for release in stored if release.number in named or release.at > since]
    states = [*history, *(record.state for record in records)]
    discarded = drop_unneeded(tables, stored, states, needed=needed, kept=recent)
    done = [
        *_logs(tables, needed, settings, at),
        *_views(tables, view_tables(tables, needed, recent), kept, settings, at),
        *_journals(tables, needed, settings),
    ]
    return Maintained(
        retained=tuple(each.number for each in publications.whole(tables, history) if each in kept),
        tables=tuple(done),
        discarded=tuple(tables.name(folder) for folder in discarded),
        scratch=scratch.clear(tables),
    )


def _logs(tables: Tables, needed: list[Release], settings: Settings, at: datetime) -> Iterator[Upkeep]:
    for source in dict.fromkeys(name for release in needed for name in release.sources):
        known = archive_runs.runs(tables, source)
        if not known:
            continue
        _claim(tables, tables.archive(source))
        # Files of a run that is not checked may have to leave the archive, and no others with them.
        checked = archive_runs.unchecked(tables, source) is None
        addresses: dict[str, Columns] = {tables.archive(source): RECORDS} if checked else {}
        for release in needed:
            if decoder := release.sources.get(source):
                addresses |= {tables.events(source, decoder): EVENTS, tables.quarantine(source, decoder): RECORDS}
        for address, where in addresses.items():
            _claim(tables, address)
            size = settings.batch.task_mb << 20
            compacted, into = compact.compact(tables, address, where, known[-1].end, file_bytes=size, at=at)
            yield Upkeep(tables.name(address), compacted, into, freed=_vacuum(tables, address, settings))


def _views(tables: Tables, addresses: list[str], kept: list[Publication], settings: Settings, at: datetime) -> Iterator[Upkeep]:
    for address in addresses:
        _claim(tables, address)
        expired = expire_versions(tables, address, kept, at=at)
        yield Upkeep(tables.name(address), expired=expired, freed=_vacuum(tables, address, settings))


def _journals(tables: Tables, needed: list[Release], settings: Settings) -> Iterator[Upkeep]:
    """Vacuum the journals and leases, which merge their files themselves and leave the old ones on the disk."""
    decoders = dict.fromkeys(pair for release in needed for pair in release.sources.items())
    # A lease replaces its row every few seconds, and needs none of its log.
    for name in tables.leases:
        handle = delta_tables.open_table(tables, tables.control("leases", name))
        if handle is not None:
            checkpoint(handle)
    names = [
        ("releases",),
        ("documents",),
        ("publications",),
        ("standing",),
        ("diffs",),
        ("gaps",),
        ("audits",),
        ("rates",),
        ("tokens",),
        *dict.fromkeys((kind, source) for source, _ in decoders for kind in ("runs", "topics", "firsts", "checked")),
        *(("summaries", *pair) for pair in decoders),
        *(("leases", name) for name in tables.leases),
    ]
    for address in (tables.control(*name) for name in names):
        yield Upkeep(tables.name(address), freed=_vacuum(tables, address, settings))


def _claim(tables: Tables, address: str) -> None:
    """Raise the table's token before anything is listed: no run before this one commits the files that it has written."""
    handle = delta_tables.open_table(tables, address)
    if handle is not None:
        delta_tables.claim(handle, tables.lease(address))


def _vacuum(tables: Tables, address: str, settings: Settings) -> Freed:
    handle = delta_tables.open_table(tables, address)
    return Freed() if handle is None else vacuum(handle, hours=settings.keep.file_hours, lease=tables.lease(address))
