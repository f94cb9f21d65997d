"""The state of a project from which all metrics of a scrape are computed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tandem.cli.command.call import Call
from tandem.cli.run import part_processes, status
from tandem.infra.kafka import broker
from tandem.infra.settings import Settings
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.audits import Audit, Audits
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.rates import Rate, RunRates
from tandem.ledger.publish.releases import Releases
from tandem.serving.read.reader import Reader
from tandem.speed import progress
from tandem.speed.progress import MicroBatches


@dataclass(frozen=True)
class StoredBytes:
    """One table's active files."""

    kind: str
    name: str
    files: int
    bytes: int


@dataclass(frozen=True)
class ProjectState:
    """A project at the time `now`: the document of `tandem status`, the newest publication, and rows of journals.

    * `expected`: the processes that `up` starts.
    * `micro_batches`: those of the speed layer since it started; None if it does not run.
    * `stored`: the existing tables of the live release.
    """

    now: datetime
    status: Mapping[str, Any]
    expected: tuple[str, ...]
    published: Publication | None
    audits: Sequence[Audit]
    runs: Sequence[Rate]
    stored: Sequence[StoredBytes]
    micro_batches: Sequence[MicroBatches]


def look(call: Call, *, now: datetime) -> ProjectState:
    """Read the state from the tables and the broker. Raises TandemError, also for invalid definitions in the working tree."""
    settings = call.settings()
    tables = Tables.of(settings)
    published = Publications(tables).latest()
    reader = None if published is None else Reader(tables)
    return ProjectState(
        now,
        status.document(call, settings, tables, reader, now=now),
        _expected(settings),
        published,
        Audits(tables).history(),
        RunRates(tables).history(),
        [] if published is None else list(_stored(tables, published)),
        running.sources if (running := progress.read(settings.folder)) else (),
    )


def _expected(settings: Settings) -> tuple[str, ...]:
    return (part_processes.SPEED,) if settings.kafka.bootstrap else (broker.NAME, part_processes.SPEED)


def _stored(tables: Tables, published: Publication) -> Iterator[StoredBytes]:
    release = Releases(tables).load(published.release)
    for source, decoder in release.sources.items():
        yield from _table(tables, "archive", source, tables.archive(source))
        yield from _table(tables, "events", source, tables.events(source, decoder))
        yield from _table(tables, "quarantine", source, tables.quarantine(source, decoder))
        yield from _table(tables, "realtime", source, tables.realtime(release.number, source))
    for view, batch_view in published.views.items():
        yield from _table(tables, "view", view, batch_view.address(tables, view))


def _table(tables: Tables, kind: str, name: str, address: str) -> Iterator[StoredBytes]:
    if handle := delta_tables.open_table(tables, address):
        sizes = delta_tables.files(handle)
        yield StoredBytes(kind, name, len(sizes), sum(sizes.values()))
