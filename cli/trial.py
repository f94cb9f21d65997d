"""What a view would answer if a file's lines were its log: the kernel alone, without Kafka, Java or tables."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

import pyarrow as pa

from ledger.counts import add
from views.decode.unlogged import as_records
from views.kernel import Partial, decode, merge, partial, prepare, unique
from views.ranges import Ranges
from views.source import REJECTS_SCHEMA
from views.unique import identity_columns
from views.view import View
from views.watermark import maxima_of, newest, watermark

TOPIC = "file"
SHOWN_REJECTS = 20
_LINES = 50_000  # bounds what is in memory at once: these lines, the states, and the identities seen


@dataclass(frozen=True)
class Trial:
    """The states of a view over a file, its watermark, and what became of the lines: lines = events + duplicates + quarantined.

    `rejects` are the first of them, as the quarantine table has them; an offset is a line's number, counted from 0.
    """

    partial: Partial
    watermark: int | None
    lines: int
    events: int
    duplicates: int
    quarantined: dict[str, int]
    rejects: pa.Table


def trial(view: View, lines: Iterable[bytes], *, at: datetime) -> Trial:
    """Count lines as the layers would count a topic of one partition that holds them; `at` stands for their append time."""
    source = view.source
    states, maxima, known = [], [], None
    events = duplicates = read = 0
    quarantined: dict[str, int] = {}
    rejects = pa.Table.from_batches([], REJECTS_SCHEMA)
    for values in _chunks(lines):
        decoded = decode(source, as_records(source, values, topic_id=TOPIC, first=read, at=at))
        kept = unique(source, decoded.events, known)
        prepared, ranges = prepare(source, kept.events), Ranges.of({(TOPIC, 0): (read, read + len(values))})
        states.append(partial(view, prepared.events, ranges, prepared.failed))
        maxima.append(maxima_of(source, kept.events))
        if identity := identity_columns(source):
            seen = kept.events.select(identity)
            known = seen if known is None else pa.concat_tables([known, seen])
        read += len(values)
        events += kept.events.num_rows
        duplicates += kept.duplicates
        quarantined = add(quarantined, _by_reason(decoded.rejects))
        rejects = pa.concat_tables([rejects, decoded.rejects]).slice(0, SHOWN_REJECTS)
    reached = watermark(newest(maxima), source.idle)
    return Trial(merge(view, states), reached, read, events, duplicates, quarantined, rejects)


def _chunks(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    iterator = iter(lines)
    while chunk := list(islice(iterator, _LINES)):
        yield chunk


def _by_reason(rejects: pa.Table) -> dict[str, int]:
    counts = rejects.group_by("reason").aggregate([([], "count_all")])
    return dict(zip(counts["reason"].to_pylist(), counts["count_all"].to_pylist(), strict=True))
