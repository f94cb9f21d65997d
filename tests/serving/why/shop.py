"""A log of sales with duplicates, late and broken records, whose layers drop duplicates."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from tandem.ledger.files.file_ranges import EVENTS
from tandem.ledger.files.rows_at import rows_at
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.serving.read.merged_layers import Reader
from tandem.serving.why.topic_tail import LogTail
from tandem.serving.why.why import WhyReader
from tandem.views.arrow import arrays
from tandem.views.arrow.arrays import to_ipc
from tandem.views.kernel.kernel import after_final, ahead, decode, deduplicate, partial, prepare
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import Source
from tandem.views.source.watermark import maxima_of
from tests.serving.world import Folded, World

EIGHT = datetime(2026, 11, 1, 8, tzinfo=UTC)

DEFINITIONS = """
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated

from tandem import (Event, Scale, Source, View, approx_count_distinct, calendar, count, count_window, hopping, last, maximum,
    mean, rollup, session, total, tumbling)


class Sale(Event):
    id: str
    at: datetime
    city: str | None
    price: Annotated[Decimal, Scale(2)]
    pieces: int = 1


sales = Source(topic="sales", event=Sale, event_time="at", identity=("id",), lateness=timedelta(minutes=10))
measures = {"orders": count(), "revenue": total("price"), "best": maximum("price"), "mean": mean("price"),
    "big": count(filter="pieces > 2"), "kinds": approx_count_distinct("id"), "last": last("price")}
hourly = View(sales, keys={"city": "upper(city)"}, window=tumbling(hours=1), where="price > 0", measures=measures)
slides = View(sales, keys={"city": "city"}, window=hopping(timedelta(hours=2), every=timedelta(hours=1)), measures=measures)
daily = rollup(hourly, window=calendar("day", zone="UTC"), name="daily")
visits = View(sales, keys={"city": "city"}, window=session(minutes=30), measures={"orders": count(), "revenue": total("price")})
fours = View(sales, keys={"city": "city"}, window=count_window(4), measures={"orders": count(), "revenue": total("price")})
ever = View(sales, measures={"orders": count(), "revenue": total("price")})
each = View(sales, keys={"per_piece": "pieces // (pieces - 3)"}, measures={"orders": count()})

SOURCES = (sales,)
VIEWS = (hourly, slides, visits, fours, ever, each, daily)
"""


def sale(id_: str, minutes: float, city: str | None = "OSLO", price: str = "1.00", pieces: int = 1) -> bytes:
    """A sale, some minutes after eight."""
    at = EIGHT + timedelta(minutes=minutes)
    return json.dumps({"id": id_, "at": at.isoformat(), "city": city, "price": price, "pieces": pieces}).encode()


@dataclass
class Shop(World):
    """A World whose layers drop duplicates, as those of a source with an identity do."""

    definitions: str = DEFINITIONS
    source: str = "sales"
    appended: datetime = EIGHT + timedelta(hours=6)

    def fold(self, start: Position, end: Position, reached: int | None = None) -> Folded:
        """What the kernel makes of the events of `[start, end)` that no earlier event is a copy of."""
        source = self.project.sources[self.source]
        generations = tuple(dict.fromkeys(topic for topic, _ in self.places))
        whole = deduplicate(source, decode(source, self.records(LOG_START, end)).events, generations=generations).events
        events = whole.filter(arrays.booleans(rows_at(whole, EVENTS, ranges(start, end))))
        decoded = decode(source, self.records(start, end))
        prepared = prepare(source, events, generations)
        partials = {
            self.live.views[name].fingerprint: partial(view, prepared.events, ranges(start, end), prepared.failed)
            for name, view in self.views.items()
        }
        reasons = decoded.rejects["reason"].to_pylist()
        return Folded(
            counts=Counts(
                events=events.num_rows,
                duplicates=decoded.events.num_rows - events.num_rows,
                quarantined={reason: reasons.count(reason) for reason in set(reasons)},
                ahead=int(ahead(source, events).sum()),
            ),
            newest=max(events["_append_time"].to_pylist(), default=None),
            rejected={fingerprint: one.rejected for fingerprint, one in partials.items() if one.rejected},
            partials={fingerprint: to_ipc(one.states) for fingerprint, one in partials.items()},
            maxima=maxima_of(source, events),
            after_final={
                self.live.views[name].fingerprint: number
                for name, view in self.views.items()
                if (number := after_final(view, prepared.events, reached))
            },
        )

    @property
    def tail(self) -> LogTail:
        """The records that the archive lacks, from the log in memory."""

        def records(source: Source, missing: Ranges) -> Iterator[tuple[Source, pa.Table]]:
            every = self.records(LOG_START, self.end)
            names = {"_topic_id": "topic_id", "_partition": "partition", "_offset": "offset"}
            placed = every.select([*names.values()]).rename_columns([*names])
            yield source, every.filter(arrays.booleans(rows_at(placed, EVENTS, missing)))

        return records

    def why(self, **limits: Any) -> WhyReader:
        """Explains rows as the tables are now."""
        return WhyReader(Reader(self.tables), self.tail, **limits)
