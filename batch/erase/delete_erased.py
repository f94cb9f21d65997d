"""Delete what still holds erased records after the refold: earlier batch versions, realtime commits, examples, old files.

No hours of grace: a reader that has an earlier version open finds its file deleted, reports it, and reads the new version when it
is run again. A server reads the new publication at its next poll.
"""

import json
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from tandem.batch.erase.refold import looking_sources
from tandem.batch.maintain.maintain import expire_versions
from tandem.batch.maintain.remove_rows import log_tables
from tandem.batch.runtime import scratch
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delete_table_files import Freed, vacuum
from tandem.ledger.delta.journal import Journal, JournalSnapshot
from tandem.ledger.delta.retries import claim, commit_again
from tandem.ledger.log.erasures import Erasure
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.audits import Audits
from tandem.ledger.publish.diffs import ReleaseDiffs
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.standing import Followed
from tandem.ledger.realtime.commit_files import read_spans, to_rows
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.tiling import boundary
from tandem.views.composite.table import reads_records_of
from tandem.views.project import project

_EXAMPLES = "examples"


def delete_files(batch: BatchRun, live: Publication, erasure: Erasure) -> Freed:
    """Delete everything below the live cut that counted the records, and the files that had them. Idempotent.

    Under the locks of views and archive. Raises Conflict, Unwritable, Unreadable.
    """
    tables, source, at = batch.tables, erasure.source, batch.now()
    keep = batch.settings.keep
    kept = Followed(batch.standing, keep.release_days).retained(
        at, publications=keep.publications, since=at - timedelta(days=keep.days)
    )
    freed = []
    looking = looking_sources(project.load_files(batch.releases.load(live.release).files), source)
    for address in view_tables(batch, live, source):
        expire_versions(tables, address, kept, at=at)
        freed.append(_vacuum(tables, address))
    for address, _ in log_tables(tables, source):
        freed.append(_vacuum(tables, address))
    for number in (int(name) for name in tables.names("realtime")):
        for of in (source, *looking):
            # Of a retired release nothing is read again.
            below = live.cut(of) if number == live.release else None
            freed.append(_delete_commits(tables, number, of, below, by=batch.by, at=at))
    for journal, column in ((Audits(tables).journal, "audits"), (ReleaseDiffs(tables).journal, "views")):
        freed.append(_drop_examples(journal, column, at=at))
    freed.append(scratch.clear(tables))
    return Freed(sum(each.files for each in freed), sum(each.bytes for each in freed))


def view_tables(batch: BatchRun, live: Publication, source: str) -> list[str]:
    """The addresses of the tables of all views that read the source's records, and of views that the live release lacks."""
    tables = batch.tables
    views = project.load_files(batch.releases.load(live.release).files).views
    others = {name for name, view in views.items() if not reads_records_of(view, source)}
    named = {live.views[name].address(tables, name) for name in views if name not in others}
    folders = [
        tables.view(view, fingerprint)
        for view in tables.names("views")
        if view not in others
        for fingerprint in tables.names("views", view)
    ]
    return sorted({*named, *folders})


def _vacuum(tables: Tables, address: str) -> Freed:
    handle = delta_tables.open_table(tables, address)
    if handle is None:
        return Freed()
    lease = tables.lease(address)
    return vacuum(claim(handle, lease), hours=0, lease=lease)


def _delete_commits(tables: Tables, release: int, source: str, below: Position | None, *, by: str, at: datetime) -> Freed:
    """Delete the realtime commits of a release below a position, or all of them; a mark keeps the boundary there.

    Each commit of the table is conditional on its version: the speed layer, which writes it, tries again and continues.
    """
    handle = delta_tables.open_table(tables, tables.realtime(release, source))
    if handle is None:
        return Freed()

    def attempt(handle: DeltaTable) -> DeltaTable:
        spans = read_spans(handle, {})
        counted = {path: span for path, span in spans.items() if not span.mark}
        old = [path for path, span in counted.items() if below is None or span.end.at_or_below(below)]
        if old:
            ends = [spans[path].end for path in old]
            last = below if below is not None else max(ends, key=lambda end: sum(offset for _, offset in end.offsets))
            left = [span for path, span in spans.items() if path not in old]
            epoch = max(span.epoch for span in spans.values())
            mark = Commit(last, last, epoch, "cut", by=by, at=at)
            delta_tables.conditional_replace(handle, old, [] if left and boundary(left, last) else [to_rows(mark, handle)], at=at)
        return delta_tables.reopen(handle)

    return vacuum(commit_again(handle, attempt), hours=0)


def _drop_examples(journal: Journal, column: str, *, at: datetime) -> Freed:
    """Write a journal's rows again without the rows of views that they show as examples, and delete its old files."""
    snapshot = journal.read()
    if snapshot.handle is None or not snapshot.rows():
        return Freed()

    def attempt(handle: DeltaTable) -> DeltaTable:
        rows = JournalSnapshot(handle).rows()
        cleared = [{**row, column: json.dumps(_without_examples(json.loads(row[column])))} for row in rows]
        if cleared != rows:
            whole = pa.Table.from_pylist(cleared, journal.schema)
            delta_tables.conditional_replace(handle, list(delta_tables.files(handle)), [whole], at=at, bounds="number")
        return delta_tables.reopen(handle)

    return vacuum(commit_again(snapshot.handle, attempt), hours=0)


def _without_examples(document: Any) -> Any:
    """A document in which every list of examples is empty."""
    if isinstance(document, dict):
        return {name: [] if name == _EXAMPLES else _without_examples(value) for name, value in document.items()}
    return [_without_examples(value) for value in document] if isinstance(document, list) else document
