"""`tandem try`: the answer of a view if a file were its log, with the definitions in the project's folder."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.exit_codes import DONE, FAILED
from tandem.cli.command.text_tables import listing
from tandem.cli.log.file_progress import Advance, bytes_to_read, file_progress
from tandem.cli.records.bundles import BundledValue
from tandem.cli.records.file_values import file_values
from tandem.cli.records.folder_files import folder_files
from tandem.cli.records.reject_groups import RejectGroup, RejectGroups, by_reason
from tandem.infra import clock
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.serving.read.window_zone import rows_in, rows_with_local, zone_name
from tandem.views.composite.table import looked_up
from tandem.views.composite.together import several
from tandem.views.counted import counted
from tandem.views.decode.file import layout
from tandem.views.decode.sample_records import as_records
from tandem.views.errors import TandemError, listed
from tandem.views.exactness import Exactness, of_measures
from tandem.views.kernel.deduplicate import identity_columns
from tandem.views.kernel.kernel import Partial, current, decode, deduplicate, merge, partial_of, prepare, present
from tandem.views.kernel.rows import to_rows
from tandem.views.source.log_order import event_rejects
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.record_filter import ByHeader
from tandem.views.source.source import Source
from tandem.views.source.watermark import maxima_of, newest, watermark
from tandem.views.view import View

TOPIC = "file"
SHOWN_REJECTS = 20
_LINES = 50_000  # bounds what is in memory at once: these lines, the states, and the identities seen


@dataclass(frozen=True)
class Trial:
    """The states of a view over a file, its watermark, and the outcome of its lines.

    * `records`: the number of records: one per line, unless the source's format puts several lines into one.
    * `decoded`: records that became events or duplicates.
    * `others`: records of other sources.
    * `rejects`: all other records, and events of lists that are rejected alone; `rejected_events` are the latter.
    """

    partial: Partial
    watermark: int | None
    records: int
    events: int
    duplicates: int
    rejects: RejectGroups
    others: int
    rejected_events: int = 0

    @property
    def decoded(self) -> int:
        """The records that are events or lists of events."""
        return self.records - self.others - self.rejects.total + self.rejected_events


def trial(view: View, values: Iterable[BundledValue], *, at: datetime, schemas: RegistrySchemas | None = None) -> Trial:
    """Count a file's values as the layers would count a topic of one partition to which `tandem feed` has sent them.

    `at` is used as their append time. `schemas` are those that values name. Raises RegistryAway.
    """
    source = without_headers(view.source)
    states, maxima, known = [], [], None
    events = duplicates = others = records = alone = 0
    rejects = RejectGroups()
    for chunk in _chunks(iter(values), max(1, _LINES // layout(source).lines)):
        offsets = [one.line - 1 for one in chunk]
        given = as_records(source, [one.value for one in chunk], topic_id=TOPIC, offsets=offsets, at=at)
        decoded = decode(source if schemas is None else schemas.ready(source, given), given)
        kept = deduplicate(source, decoded.events, known)
        prepared, ranges = prepare(source, kept.events), Ranges.of({(TOPIC, 0): (offsets[0], offsets[-1] + 1)})
        states.append(partial_of(view, prepared.events, ranges, prepared.failed))
        maxima.append(maxima_of(source, kept.events))
        if identity := identity_columns(source):
            seen = kept.events.select(identity)
            known = seen if known is None else pa.concat_tables([known, seen])
        records += len(chunk)
        events += kept.events.num_rows
        duplicates += kept.duplicates
        others += decoded.others
        alone += event_rejects(decoded.rejects).events
        rejects.add(decoded.rejects)
    reached = watermark(newest(maxima), source.idle)
    return Trial(merge(view, states), reached, records, events, duplicates, rejects, others, alone)


def without_headers(source: Source) -> Source:
    """The source as it reads values of a file, which have no headers: a filter by header is not applied."""
    return replace(source, record_filter=None) if isinstance(source.record_filter, ByHeader) else source


def _chunks(values: Iterator[BundledValue], size: int) -> Iterator[list[BundledValue]]:
    while chunk := list(islice(values, size)):
        yield chunk


def run(
    call: Call,
    view: Annotated[str, typer.Argument(help="The view's name. A project with one view needs only the file.")],
    file: Annotated[
        Path | None,
        typer.Argument(help="A file of records or a folder of such files, as `tandem feed` reads it; - is standard input."),
    ] = None,
    *,
    utc: Annotated[bool, typer.Option("--utc", help="Print windows in UTC instead of the view's zone.")] = False,
) -> Output:
    """Answer a view from a file's lines, and show the lines that cannot be decoded. Java, Kafka and tables are not needed.

    Equal rejects are one line, with their number. The exit code is 1 if no line of the file can be decoded.
    """
    views = call.definitions().every_view
    if file is None:
        view, file = _only_view(view, views), Path(view)
    if view not in views:
        raise TandemError(f"no view {view!r}; views: {listed(view, views)}", code="view-unknown")
    tables = [each.source.name for each in looked_up(views[view]).values()]
    if several(views[view]) or tables:
        reads = f"looks up in a table of {' and of '.join(tables)}" if tables else "reads several sources"
        raise TandemError(
            f"view {view!r} {reads}, and a file has records of one source; tandem.testing.answer takes events of all",
            code="usage-invalid",
        )
    source = without_headers(views[view].source)
    read = _FilesRead(source, folder_files(file) if file.is_dir() else [file])
    schemas = RegistrySchemas(call.settings().registry)
    with file_progress(call, bytes_to_read(read.files)) as advance:
        tried = trial(views[view], _advancing(read.values(), advance), at=clock.now(), schemas=schemas)
    rejected = current(views[view], tried.partial).rejected
    cells = rows = to_rows(views[view], present(views[view], tried.partial, tried.watermark))
    if not utc and (zone := zone_name(views[view])) is not None:
        rows, cells = rows_with_local(rows, zone), rows_in(rows, zone)
    groups = [read.place(group) for group in tried.rejects.largest(SHOWN_REJECTS)]
    exactness = Exactness(columns=of_measures(views[view]))
    document = {
        "view": view,
        "rows": rows,
        "lines": read.lines,
        "records": tried.records,
        "decoded": tried.decoded,
        "events": tried.events,
        "duplicates": tried.duplicates,
        "quarantined": tried.rejects.reasons,
        "others": tried.others,
        "rejected": dict(rejected),
        "exactness": exactness.to_json(),
        "rejects": [group.to_json() for group in groups],
    }
    code = FAILED if tried.rejects.total and not tried.decoded else DONE
    return Output(document, listing(cells, below=list(_below(tried, rejected, groups, read))), code)


def _only_view(file: str, views: Mapping[str, View]) -> str:
    """The project's view, for a file that was given alone."""
    if file in views:
        raise TandemError(f"view {file!r} is tried with a file; give it after the view's name", code="usage-invalid")
    if len(views) != 1:
        raise TandemError(f"give the name of a view before {file!r}; views: {listed(file, views)}", code="usage-invalid")
    return next(iter(views))


def _advancing(values: Iterable[BundledValue], advance: Advance) -> Iterator[BundledValue]:
    for number, value in enumerate(values, 1):
        advance(number, value.size)
        yield value


@dataclass
class _FilesRead:
    """The values of several files as of one; `starts` has for each file the number of lines, or rows, before it."""

    source: Source
    files: Sequence[Path]
    lines: int = 0
    starts: list[int] = field(default_factory=list)
    units: list[str] = field(default_factory=list)

    def values(self) -> Iterator[BundledValue]:
        """The values of all files, one after another."""
        for file in self.files:
            with file_values(self.source, file) as values:
                self.starts.append(self.lines)
                self.units.append(values.unit)
                for value in values:
                    yield replace(value, line=self.lines + value.line) if self.lines else value
                self.lines += values.lines

    def place(self, group: RejectGroup) -> RejectGroup:
        """The group with the first reject's place in its file."""
        number = bisect_left(self.starts, group.line) - 1
        name = str(self.files[number]) if len(self.files) > 1 else ""
        return replace(group, line=group.line - self.starts[number], unit=self.units[number], file=name)


def _below(tried: Trial, rejected: Mapping[str, int], groups: Sequence[RejectGroup], read: _FilesRead) -> Iterator[str]:
    """The outcome of the lines, for a person."""
    rejects = tried.rejects
    copies = f" ({tried.duplicates} of them duplicates)" if tried.duplicates else ""
    others = f", {tried.others} of other sources" if tried.others else ""
    unit = read.units[0] if len(set(read.units)) == 1 else "line"
    files = f" of {counted(len(read.files), 'file')}" if len(read.files) > 1 else ""
    yield f"{read.lines} {unit}s{files}: {tried.events + tried.duplicates} events{copies}, {rejects.total} to quarantine{others}"
    if rejected:
        yield f"rejected by this view: {by_reason(rejected)}"
    yield from (f"  {group}" for group in groups)
    if left := rejects.total - sum(group.count for group in groups):
        yield f"  and {left} more"
    if rejects.total and not tried.decoded:
        yield "nothing of the file can be decoded"
