"""A late event and its duplicate: the demo sends both, and shows what the event's window counts before and after each."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from tandem.cli.demo.layered_values import sum_measures, time_text
from tandem.cli.demo.watcher import Look, Watcher
from tandem.cli.records.record_keys import SourceSample
from tandem.infra import clock
from tandem.ledger.log.positions import Position
from tandem.views.decode import decode
from tandem.views.decode.sample_records import as_records
from tandem.views.kernel.kernel import partial_of, prepare, present
from tandem.views.kernel.rows import to_rows
from tandem.views.measures.count import Count
from tandem.views.measures.filtered import bare
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.united_source import all_sources
from tandem.views.view import View, bind, group_columns
from tandem.views.windows import WINDOW_COLUMNS

DAYS: Final = 3
"""How many days before the others the event is: no other event of a generator is in its window."""
_SAMPLES: Final = 200
_TIMES: Final = ("before", "after the event", "after its duplicate")


@dataclass(frozen=True)
class LateSample:
    """A sample whose event is the only one of a row of a view: `row` is that row, of which `measure` counts the event."""

    sample: SourceSample
    view: View
    measure: str
    row: Mapping[str, Any]


@dataclass
class LateEvent:
    """Sends a late sample twice and reads the count of its row: before, after the event, after its duplicate.

    `send` appends the sample and returns the end of the log after it.
    """

    late: LateSample
    watcher: Watcher
    send: Callable[[], Position]
    counts: list[int] = field(default_factory=list)
    _sent: Position | None = None

    @property
    def times(self) -> int:
        """The number of counts to read: a source without identity has no duplicates."""
        return len(_TIMES) if self.late.view.source.identity else len(_TIMES) - 1

    def step(self, look: Look) -> None:
        """Read the count once answers have what was sent, and send again. The first time waits for a batch's cut."""
        if len(self.counts) == self.times or not sum(look.cut.values()):
            return
        if self._sent is None or self._sent.at_or_below(look.realtime):
            self.counts.append(self._count())
            if len(self.counts) < self.times:
                self._sent = self.send()

    def notes(self) -> list[str]:
        """A line for each thing that was sent, for a person."""
        place = f"{self.late.view.name} at {time_text(self.late.row[WINDOW_COLUMNS[0]])[:16]}"
        notes = []
        if self.counts:
            result = f"had {self.counts[0]}, has {self.counts[1]}" if len(self.counts) > 1 else f"has {self.counts[0]}"
            notes.append(f"late an event {DAYS} days late: {place} {result}")
        if len(self.counts) > 1 and self.times > 2:
            result = f"still {self.counts[2]}" if len(self.counts) > 2 else "sent"
            notes.append(f"duplicate the same event again: {result}")
        return notes

    def _count(self) -> int:
        columns = group_columns(self.late.view)
        wanted = [self.late.row[column] for column in columns]
        rows = self.watcher.answer(self.late.view.name).rows()
        return next((row[self.late.measure] for row in rows if [row[column] for column in columns] == wanted), 0)


def late_sample(views: Iterable[View], samples: Iterable[SourceSample]) -> LateSample | None:
    """The first sample that a view counts in a window of fixed bounds; None if no view has such windows."""
    counting = [(view, measure) for view in views for measure in _counts(view)]
    for sample in islice(samples, _SAMPLES):
        for view, measure in counting:
            for row in _rows(view, sample):
                if row[measure] == 1:
                    return LateSample(sample, view, measure, row)
    return None


def _counts(view: View) -> Iterator[str]:
    placement = bind(view).placement
    if placement.independent and not placement.in_order and placement.timing.bounded and placement.steps.arrange is None:
        for name in sum_measures(view):
            if isinstance(bare(view.measures[name]), Count):
                yield name


def _rows(view: View, sample: SourceSample) -> list[dict[str, Any]]:
    key, value, _, name = sample
    source = all_sources([view.source]).get(name)
    if source is None:
        return []
    records = as_records(source, [value], topic_id="demo", offsets=[0], at=clock.now(), keys=[key])
    prepared = prepare(source, decode(source, records).events)
    return to_rows(view, present(view, partial_of(view, prepared.events, EMPTY, prepared.failed, source=source)))
