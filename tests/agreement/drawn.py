"""A random view, for the kernel and for the oracle, over a random log with random cuts and micro-batches."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import note
from hypothesis import strategies as st

from tandem.views.measures.filtered import Filtered
from tandem.views.source.source import Source
from tandem.views.view import View
from tests.agreement.oracle import FILTERS, KEYS, MEASURES, Asked, Said, oracle
from tests.agreement.windows import WINDOWS, Cut
from tests.samples import SAMPLES, placed, rows, times

PARTITIONS = (("topic", 0), ("topic", 1), ("anew", 0))

Log = dict[tuple[str, int], list[dict[str, Any]]]
"""By topic id and partition the events, placed."""

Vector = Mapping[tuple[str, int], tuple[int, int]]
"""By topic id and partition a range of offsets."""


@dataclass(frozen=True)
class Drawn:
    """One view said twice."""

    source: Source
    where: Said | None
    keys: Mapping[str, Said]
    window: Cut
    measures: Mapping[str, Asked]

    @property
    def view(self) -> View:
        return View(
            self.source,
            keys={name: said.sql for name, said in self.keys.items()},
            window=self.window.window,
            measures={name: asked.measure for name, asked in self.measures.items()},
            where=self.where.sql if self.where else None,
        )

    def oracle(self, log: Log) -> tuple[dict[tuple[Any, ...], dict[str, Any]], Counter[str]]:
        return oracle(
            log,
            where=self.where.value if self.where else None,
            keys={name: said.value for name, said in self.keys.items()},
            window=self.window.split,
            measures=self.measures,
        )


@st.composite
def logs(draw: st.DrawFn, source: Source = SAMPLES) -> Log:
    """Events in all partitions; of a source with an identity there are copies, in any of them and as often as may be."""
    events = st.lists(rows, max_size=15)
    if source.identity:
        known = [{**row, "id": number} for number, row in enumerate(draw(st.lists(rows, min_size=1, max_size=15)))]
        events = st.lists(st.sampled_from(known), max_size=15)
    if not source.identity_has_time and source.identity:
        moved = st.tuples(st.sampled_from(known), times).map(lambda both: {**both[0], "at": both[1]})
        events = st.lists(st.sampled_from(known) | moved, max_size=15)
    return {partition: placed(draw(events), partition=partition) for partition in PARTITIONS}


def _every_one() -> list[list[str]]:
    """The names of all measures: in each list those that are the same measure of other values, some of them filtered."""
    found: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for name, asked in MEASURES.items():
        measure = asked.measure.measure if isinstance(asked.measure, Filtered) else asked.measure
        which = (getattr(measure, part, None) for part in ("statistic", "which", "end"))
        found[type(measure), *which, getattr(measure, "by", None) is None].append(name)
    return [*found.values()]


EVERY: Final = st.tuples(*map(st.sampled_from, _every_one())).map(list)
"""Every measure there is, each of values at random."""
FEW: Final = st.lists(st.sampled_from(sorted(MEASURES)), min_size=1, max_size=6, unique=True)
"""A few, since measures share states; now and then several of the same."""


def drawn(
    data: st.DataObject, kind: str, source: Source = SAMPLES, measures: st.SearchStrategy[list[str]] = EVERY | FEW
) -> Drawn:
    """A view of this kind of window."""
    where = data.draw(st.none() | st.sampled_from(FILTERS), label="where")
    keys = data.draw(st.lists(st.sampled_from(KEYS), max_size=3, unique=True), label="keys")
    window = data.draw(WINDOWS[kind], label="window")
    names = data.draw(measures, label="measures")
    found = Drawn(source, where, {f"k{n}": said for n, said in enumerate(keys)}, window, {name: MEASURES[name] for name in names})
    note(repr(found.view))
    return found


def counting(source: Source, log: Log, vectors: Sequence[Vector]) -> Log:
    """The events that count: of copies the first in the log, where what a later vector reads came later."""
    if not source.identity:
        return log
    seen: set[int] = set()
    found: Log = {partition: [] for partition in log}
    for vector in vectors:
        for partition, (low, high) in vector.items():
            for event in log[partition][low:high]:
                if event["id"] not in seen:
                    seen.add(event["id"])
                    found[partition].append(event)
    return found
