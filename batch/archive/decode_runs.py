"""Decode archive runs: what their records become joins the events and quarantine tables of one decoder.

Each table gets a run's rows in one conditional commit with the run's number, then the ledger gets the counts. So a run that was
killed in between is decoded again, and no table has its rows twice.
"""

from dataclasses import dataclass
from typing import Final

from deltalake import DeltaTable

from tandem.batch.archive import decode_to_files
from tandem.batch.archive.decode_to_files import DecodeResult, Decoding
from tandem.batch.runtime import delta_commits
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import RECORDS, rows_within, table_ranges
from tandem.ledger.files.splits import cut, even_rows
from tandem.ledger.log.archive_runs import APP_ID, ArchiveLedger, ArchiveRun
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.log.fetch_checks import Unclosed, refuse_unclosed
from tandem.ledger.log.positions import ranges
from tandem.ledger.publish.releases import Release
from tandem.views.source.source import Source, events_schema, rejects_schema

_SLICE_ROWS: Final = 1_000_000
_FEW_ROWS: Final = 50_000


@dataclass(frozen=True)
class TypedTables:
    """The events and quarantine tables of a source under one decoder.

    Args:
        decoder: the decoder's fingerprint, which names the tables.
        work: what the tasks need, which decode the archive into files of these tables.
    """

    tables: Tables
    source: Source
    decoder: str
    work: Decoding

    def create(self) -> tuple[DeltaTable, DeltaTable]:
        """Open both, created empty if they do not exist."""
        events, quarantine = self.work.events.address, self.work.quarantine.address
        schema, bounded = events_schema(self.source), decode_to_files.bounded(self.source)
        return (
            delta_commits.make_table(self.tables, events, schema, bounded=bounded),
            delta_commits.make_table(self.tables, quarantine, rejects_schema(self.source), bounded=RECORDS.names),
        )


def typed_tables(tables: Tables, release: Release, source: Source) -> TypedTables:
    """The events and quarantine tables of a source under the release's decoder."""
    name, decoder = source.name, release.sources[source.name]
    addresses = (tables.archive(name), tables.events(name, decoder), tables.quarantine(name, decoder))
    work = Decoding(release.files, name, *(Location.of(tables, address) for address in addresses))
    return TypedTables(tables, source, decoder, work)


def decode_archived(batch: BatchRun, release: Release, source: Source) -> list[Counts]:
    """Decode the archive for the release's decoder as far as it is checked. Returns the counts of each run.

    The caller holds the archive's lock. Needs no broker. Raises TandemError.
    """
    typed = typed_tables(batch.tables, release, source)
    return [decode_run(batch, typed, run) for run in ArchiveLedger(batch.tables, source.name).undecoded(typed.decoder)]


def decode_run(batch: BatchRun, typed: TypedTables, run: ArchiveRun, decoded: DecodeResult | None = None) -> Counts:
    """Commit the decoded files of the run to the tables that lack the run, and record the counts.

    Without `decoded` the records are read from the archive, which is a Spark job. Raises TandemError: TaskFailed, Unclosed,
    Conflict, Unwritable, RegistryAway.
    """
    # The handles are older than what is decoded, so a commit fails if another process has committed meanwhile.
    events, quarantine = typed.create()
    covered = ranges(run.start, run.end, run.firsts)
    if decoded is None:
        files = table_ranges(batch.tables, typed.work.archive.address, RECORDS)
        rows = even_rows(rows_within(files, covered), batch.parallelism, least=_FEW_ROWS, most=_SLICE_ROWS)
        schemas = batch.schemas_of(typed.source)
        decoded = decode_to_files.decode(batch.session, typed.work, cut(files, covered, rows=rows), schemas)
    erased = Erasures(batch.tables).count_within(typed.source.name, covered)
    holes = covered.length - decoded.records - erased
    counts = Counts(
        decoded.event_rows,
        decoded.quarantined,
        holes,
        others=decoded.others,
        further=decoded.further + decoded.alone.further,
        rejected_events=decoded.alone.events,
        skipped=decoded.skipped,
        erased=erased,
    )
    refuse_unclosed(covered, counts)
    if holes < 0:
        raise Unclosed(f"the archive of source {typed.source.name!r} holds {decoded.records} records in {covered.length} offsets")
    lease, transaction = typed.tables.lease(typed.work.events.address), (APP_ID, run.number)
    delta_commits.add_files(events, decoded.events, lease=lease, transaction=transaction)
    delta_commits.add_files(quarantine, decoded.rejects, lease=lease, transaction=transaction)
    ArchiveLedger(batch.tables, typed.source.name).finish(
        typed.decoder, run.number, counts=counts, newest=decoded.newest, at=batch.now()
    )
    return counts
