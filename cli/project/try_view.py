"""`tandem try`: the answer of a view if a file were its log, with the definitions in the project's folder."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.text_tables import cell, listing
from tandem.cli.records.bundles import BundledValue, Bundles
from tandem.cli.records.lines import lines
from tandem.ledger.log.counts import add
from tandem.views.decode.sample_records import as_records
from tandem.views.errors import TandemError, listed
from tandem.views.exactness import Exactness, of_measures
from tandem.views.kernel.deduplicate import identity_columns
from tandem.views.kernel.kernel import Partial, decode, deduplicate, merge, partial, prepare, present
from tandem.views.kernel.rows import to_rows
from tandem.views.source.event_maxima import maxima_of
from tandem.views.source.log_order import event_rejects
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.record_filter import ByHeader
from tandem.views.source.source import rejects_schema
from tandem.views.source.watermark import newest, watermark
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
    * `quarantined`: all other records, and events of lists that are rejected alone, by reason; `rejected_events` are the latter.
    * `rejects`: the first of these, as in the quarantine table; an offset is the number of a record's first line, from 0 on.
    """

    partial: Partial
    watermark: int | None
    lines: int
    records: int
    events: int
    duplicates: int
    quarantined: dict[str, int]
    rejects: pa.Table
    others: int
    rejected_events: int = 0

    @property
    def decoded(self) -> int:
        """The records that are events or lists of events."""
        return self.records - self.others - sum(self.quarantined.values()) + self.rejected_events


def trial(view: View, lines: Iterable[bytes], *, at: datetime, file: str = "the file") -> Trial:
    """Count lines, with their ends, as the layers would count a topic of one partition to which `tandem feed` has sent them.

    `at` is used as their append time; `file` is named in errors.
    """
    # A line has no headers, so a filter by header is not applied.
    source = replace(view.source, record_filter=None) if isinstance(view.source.record_filter, ByHeader) else view.source
    states, maxima, known = [], [], None
    events = duplicates = others = records = alone = 0
    bundles = Bundles.of(source, file)
    quarantined: dict[str, int] = {}
    rejects = pa.Table.from_batches([], rejects_schema(source))
    for values in _chunks(bundles.values(lines), max(1, _LINES // bundles.layout.lines)):
        offsets = [one.line - 1 for one in values]
        given = as_records(source, [one.value for one in values], topic_id=TOPIC, offsets=offsets, at=at)
        decoded = decode(source, given)
        kept = deduplicate(source, decoded.events, known)
        prepared, ranges = prepare(source, kept.events), Ranges.of({(TOPIC, 0): (offsets[0], offsets[-1] + 1)})
        states.append(partial(view, prepared.events, ranges, prepared.failed))
        maxima.append(maxima_of(source, kept.events))
        if identity := identity_columns(source):
            seen = kept.events.select(identity)
            known = seen if known is None else pa.concat_tables([known, seen])
        records += len(values)
        events += kept.events.num_rows
        duplicates += kept.duplicates
        others += decoded.others
        alone += event_rejects(decoded.rejects).events
        quarantined = add(quarantined, _by_reason(decoded.rejects))
        rejects = pa.concat_tables([rejects, decoded.rejects]).slice(0, SHOWN_REJECTS)
    reached = watermark(newest(maxima), source.idle)
    return Trial(merge(view, states), reached, bundles.seen, records, events, duplicates, quarantined, rejects, others, alone)


def _chunks(values: Iterator[BundledValue], size: int) -> Iterator[list[BundledValue]]:
    while chunk := list(islice(values, size)):
        yield chunk


def _by_reason(rejects: pa.Table) -> dict[str, int]:
    counts = rejects.group_by("reason").aggregate([([], "count_all")])
    return dict(zip(counts["reason"].to_pylist(), counts["count_all"].to_pylist(), strict=True))


def run(
    call: Call,
    view: Annotated[str, typer.Argument(help="The view's name.")],
    file: Annotated[
        Path,
        typer.Argument(
            help="A file of records, as `tandem feed` reads it. Unpacked if its name ends in .gz; - is standard input."
        ),
    ],
) -> Output:
    """Answer a view from a file's lines, and show the lines that cannot be decoded. Java, Kafka and tables are not needed."""
    views = call.definitions().views
    if view not in views:
        raise TandemError(f"no view {view!r}; views: {listed(view, views)}", code="view-unknown")
    tried = trial(views[view], lines(file), at=datetime.now(UTC), file=str(file))
    rows = to_rows(views[view], present(views[view], tried.partial, tried.watermark))
    exactness = Exactness(columns=of_measures(views[view]))
    rejects = [_reject(reject) for reject in tried.rejects.to_pylist()]
    document = {
        "view": view,
        "rows": rows,
        "lines": tried.lines,
        "records": tried.records,
        "decoded": tried.decoded,
        "events": tried.events,
        "duplicates": tried.duplicates,
        "quarantined": tried.quarantined,
        "others": tried.others,
        "rejected": dict(tried.partial.rejected),
        "exactness": exactness.to_json(),
        "rejects": rejects,
    }
    return Output(document, listing(rows, below=list(_below(tried, rejects))))


def _reject(reject: dict[str, Any]) -> dict[str, Any]:
    return {
        "line": reject["offset"] + 1,
        "index": reject.get("index"),
        "reason": reject["reason"],
        "detail": reject["detail"],
        "first_bytes": (reject["first_bytes"] or b"").decode("utf-8", "backslashreplace"),
    }


def _below(tried: Trial, rejects: list[dict[str, Any]]) -> Iterator[str]:
    """The outcome of the lines, for a person."""
    quarantined = sum(tried.quarantined.values())
    copies = f" ({tried.duplicates} of them duplicates)" if tried.duplicates else ""
    others = f", {tried.others} of other sources" if tried.others else ""
    yield f"{tried.lines} lines: {tried.events + tried.duplicates} events{copies}, {quarantined} to quarantine{others}"
    if tried.partial.rejected:
        yield "rejected by this view: " + ", ".join(f"{count} {reason}" for reason, count in tried.partial.rejected.items())
    for reject in rejects:
        event = "" if reject["index"] is None else f", event {reject['index']}"
        yield f"  line {reject['line']}{event}: {reject['reason']}: {cell(reject['detail'])}: {cell(reject['first_bytes'][:80])}"
    if quarantined > SHOWN_REJECTS:
        yield f"  and {quarantined - SHOWN_REJECTS} more"
