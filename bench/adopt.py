"""What adopting a table costs, beside Spark alone, by turns in one warm session.

* `adopt`: `tandem adopt` writes the archive of an empty state folder
* `copy`: a Spark job copies the same table with the same columns
* `json`: a Spark job writes the same rows as JSON objects with time and file, as an archive has them
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from rich.table import Table

from tandem import Event, Source
from tandem.batch.adopt import adopt
from tandem.batch.adopt.adopt import AdoptRequest
from tandem.batch.adopt.mapping import map_rows
from tandem.batch.adopt.table import HistoryTable
from tandem.batch.runtime.session import BatchRun
from tandem.bench import silent_duckdb
from tandem.bench.peers.estimates import EstimateError, middle
from tandem.infra import clock
from tandem.infra.settings import Settings, SparkSettings
from tandem.ledger.delta import delta_tables

AIM: Final = 0.7
"""The least share of the rate of Spark's copy that adopting should have."""
_ADOPT, _COPY, _JSON = "adopt", "copy", "json"
_FILES: Final = 4
_COLUMNS: Final = {
    "id": "format('{:016x}', hash(i))",
    "at": "make_timestamptz(1793491200000000 + i * 1000)",
    "user": "'u' || hash(i, 1) % 5000",
    "path": "'/shop/item/' || hash(i, 2) % 360",
    "bytes": "CAST(hash(i, 3) % 90000 AS BIGINT)",
}
_ROWS: Final = f"""
SELECT {", ".join(f'{value} AS "{name}"' for name, value in _COLUMNS.items())} FROM range($first, $last) AS r(i)
"""


class AdoptedVisit(Event):
    """A row of the table."""

    id: str
    at: datetime
    user: str
    path: str
    bytes: int


_SOURCE: Final = Source(name="visits", topic="visits", event=AdoptedVisit, event_time="at", identity=("id",))


@dataclass(frozen=True)
class AdoptScale:
    """The rows of the table, and the rounds after a first round that does not count."""

    rows: int
    rounds: int


FULL: Final = AdoptScale(2_000_000, 5)
QUICK: Final = AdoptScale(200_000, 2)


@dataclass(frozen=True)
class AdoptRates:
    """The events a second of each side; the ratio of adopting to each of the others, round by round.

    `right` is whether each side wrote every row.
    """

    per_second: Mapping[str, EstimateError]
    ratios: Mapping[str, EstimateError]
    right: bool


def measure(
    folder: Path, scale: AdoptScale, *, cores: int, memory: str, environ: Mapping[str, str], say: Callable[[str], None]
) -> AdoptRates:
    """All sides by turns, in new folders. Raises TandemError."""
    lake = folder / "lake"
    write_table(lake, scale.rows)
    spark = SparkSettings(master=f"local[{cores}]", driver_memory=memory)
    seconds: dict[str, list[float]] = {side: [] for side in (_ADOPT, _COPY, _JSON)}
    right = True
    for number in range(1 + scale.rounds):
        say(f"round {number} of {scale.rounds}: {scale.rows:,} rows" + ("" if number else ", which does not count"))
        state = folder / f"round-{number}"
        # As the command does: its JVM has the optimizing compiler.
        settings = Settings(state=str(state), spark=spark)
        batch = BatchRun(settings, "bench", clock.now, lambda _: None, environ, copies=True)
        for side, took, rows in _round(batch, lake, state):
            right = right and rows == scale.rows
            if number:
                seconds[side].append(took)
    others = {side: [other / ours for ours, other in zip(seconds[_ADOPT], seconds[side], strict=True)] for side in (_COPY, _JSON)}
    return AdoptRates(
        {side: middle([scale.rows / took for took in of_side]) for side, of_side in seconds.items()},
        {side: middle(ratios) for side, ratios in others.items()},
        right,
    )


def write_table(folder: Path, rows: int) -> None:
    """A folder of Parquet with this number of rows, in files of equal size."""
    folder.mkdir(parents=True)
    with silent_duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        for number in range(_FILES):
            part = {"first": rows * number // _FILES, "last": rows * (number + 1) // _FILES}
            pq.write_table(engine.sql(_ROWS, params=part).to_arrow_table(), folder / f"part-{number}.parquet")


def _round(batch: BatchRun, lake: Path, state: Path) -> Iterator[tuple[str, float, int]]:
    """Each side's seconds, and the number of rows that it wrote."""
    session = batch.session
    start = time.perf_counter()
    adopt.run(batch, _SOURCE, AdoptRequest(lake, {}))
    seconds = time.perf_counter() - start
    archive = delta_tables.open_table(batch.tables, batch.tables.archive(_SOURCE.name))
    assert archive is not None, "an adoption has made it"
    yield _ADOPT, seconds, sum(pq.read_metadata(file).num_rows for file in archive.file_uris())

    start = time.perf_counter()
    session.read.parquet(str(lake)).write.parquet(str(state / _COPY))
    yield _COPY, time.perf_counter() - start, _rows(state / _COPY)

    start = time.perf_counter()
    table = HistoryTable.of(lake)
    map_rows(_SOURCE, table.rows(session, sorted(table.files)), {}).write.parquet(str(state / _JSON))
    yield _JSON, time.perf_counter() - start, _rows(state / _JSON)


def _rows(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))


def document(rates: AdoptRates) -> dict[str, Any]:
    """All figures; `reached` is whether adopting has its share of the rate of Spark's copy."""
    return {
        "right": rates.right,
        "reached": rates.ratios[_COPY].value >= AIM,
        "events_per_s": {side: round(rate.value) for side, rate in rates.per_second.items()},
        "ratios": {
            side: {"ratio": round(ratio.value, 3), "low": round(ratio.low or 0, 3), "high": round(ratio.high or 0, 3)}
            for side, ratio in rates.ratios.items()
        },
    }


def table(rates: AdoptRates) -> Table:
    """A line for each side."""
    shown = Table(title=f"adopting a table; aim: {AIM} of the rate of the copy", title_justify="left")
    for heading in ("side", "events/s", "adopt has of its rate [least, most]", "right"):
        shown.add_column(heading, justify="left" if heading == "side" else "right")
    for side, rate in rates.per_second.items():
        ratio = rates.ratios.get(side)
        share = "" if ratio is None else f"{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
        shown.add_row(side, f"{rate.value:,.0f}", share, "yes" if rates.right else "NO")
    return shown
