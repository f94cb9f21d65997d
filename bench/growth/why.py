"""The cost of `why` for a row of 10 000 events among many, as a multiple of the reads that it needs: `tandem bench why`.

A history in the order of its event times, 3.6 million an hour, in windows of an hour. The bound is a look-up of the row's states
and one scan, with pyarrow, of the row groups that can hold its events. Seconds are those of this process's CPU, which other load
changes least, and the least of several rounds.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa

from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.batch.runtime.session import BatchRun
from tandem.bench.growth.archived_history import START
from tandem.bench.growth.measuring import SOURCE, Size, written
from tandem.infra import clock
from tandem.infra.settings import Settings, SparkSettings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location, opened
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.serving.why.row_groups import ReadBytes
from tandem.serving.why.why import Why, WhyReader
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import Source

FULL: Final = 16_000_000
QUICK: Final = 1_000_000
BEHIND: Final = 10_000
"""Events of the row, about."""

_AN_HOUR: Final = 3_600_000
"""Events of an hour."""
_ROUNDS: Final = 5
_VIEW: Final = "view0"
_FIRST: Final = (START, START + timedelta(microseconds=1))
_NEEDED: Final = ("_topic_id", "_partition", "_offset", "_append_time", "id", "at", "sensor", "value")

T = TypeVar("T")


@dataclass(frozen=True)
class WhyCost:
    """CPU seconds of `why`, of the look-up of the row's states and of the scan, and the bytes that `why` and the scan read."""

    events: int
    behind: int
    agrees: bool
    why_s: float
    look_up_s: float
    scan_s: float
    read: ReadBytes
    scan_bytes: int

    @property
    def times(self) -> float:
        """The cost as a multiple of the bound."""
        return self.why_s / (self.look_up_s + self.scan_s)

    def to_json(self) -> dict[str, Any]:
        """All figures."""
        seconds = {name: round(getattr(self, name), 4) for name in ("why_s", "look_up_s", "scan_s")}
        counts = {"events": self.events, "behind": self.behind, "scan_bytes": self.scan_bytes, "read": self.read.to_json()}
        return {**counts, **seconds, "times": round(self.times, 2), "right": self.agrees}

    def lines(self) -> Iterator[str]:
        """The figures in sentences."""
        read = self.read
        verdict = "is" if self.agrees else "IS NOT"
        yield f"a row of {self.behind:,} events among {self.events:,}: it {verdict} the fold of its events"
        yield f"read: {read.bytes / 1e6:.1f} MB of {read.of_bytes / 1e6:.1f} MB, in {len(read.groups)} row groups"
        yield f"one scan of these row groups: {self.scan_bytes / 1e6:.1f} MB"
        yield f"CPU: why {self.why_s:.2f} s, look-up {self.look_up_s:.2f} s, scan {self.scan_s:.2f} s"
        yield f"why cost {self.times:.1f} times look-up and scan"


def measure(
    folder: Path, events: int, *, cores: int, memory: str, environ: Mapping[str, str], say: Callable[[str], None]
) -> WhyCost:
    """Write a history of `events` events into an empty folder, and explain one row of it. Raises TandemError."""
    spark = SparkSettings(master=f"local[{cores}]", driver_memory=memory)
    batch = BatchRun(Settings(state=str(folder), spark=spark), "bench", clock.now, lambda _: None, environ)
    size = Size(events, keys=max(1, min(events, _AN_HOUR) // BEHIND))
    say(f"{events:,} events, {size.keys:,} keys")
    defined = written(batch, folder / "project", size, window="hours=1", identity=("id", "at"))
    recompute.run(batch, lambda: defined, RecomputeRequest(mode="full"))
    source, tables = defined.sources[SOURCE], batch.tables
    key = given(Reader(tables).answer(_VIEW, between=_FIRST)).table["sensor"][0]
    events_table = Location.of(tables, tables.events(SOURCE, decoder_fingerprint(source)))
    why_s, look_up_s, scan_s = [], [], []
    for _ in range(_ROUNDS):
        seconds, _rows = _clock(lambda: given(Reader(tables).answer(_VIEW, keys={"sensor": key}, between=_FIRST)))
        look_up_s.append(seconds)
        seconds, why = _clock(lambda: _why(tables, key))
        why_s.append(seconds)
        evidence, _near = why.sources[0]
        seconds, scan_bytes = _clock(lambda: _scan(events_table, evidence.read))  # noqa: B023
        scan_s.append(seconds)
    behind = len(why.events_of(evidence))
    return WhyCost(events, behind, why.agrees, min(why_s), min(look_up_s), min(scan_s), evidence.read, scan_bytes)


def _clock(function: Callable[[], T]) -> tuple[float, T]:
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def _why(tables: Tables, key: pa.Scalar) -> Why:
    return WhyReader(Reader(tables), _no_tail).why(_VIEW, {"sensor": key}, _FIRST)


def _no_tail(_: Source, missing: Ranges) -> Iterator[tuple[Source, pa.Table]]:
    assert not missing.length, "the archive has the whole history"
    return iter(())


def _scan(place: Location, read: ReadBytes) -> int:
    """Read the columns that the row needs of all row groups that `why` read. Returns their bytes."""
    total = 0
    for path in {path for path, _ in read.groups}:
        with opened(place, path, verified=True) as file:
            for number in (number for of, number in read.groups if of == path):
                file.read_row_group(number, [*_NEEDED], use_threads=False)
                group = file.metadata.row_group(number)
                chunks = (group.column(index) for index in range(group.num_columns))
                total += sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in _NEEDED)
    return total
