"""The benchmark's views in Spark's words, shared by the jobs it compares; `project/definitions.py` says the same in Tandem's."""

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sf

SCHEMA = "request_id string, at timestamp, user string, path string, status long, bytes long, ms double"

MINUTE = 60


@dataclass(frozen=True)
class SparkView:
    """Keys and measures are SQL over the event's fields; `window` is a length in seconds, None for all time."""

    name: str
    keys: dict[str, str]
    window: int | None
    measures: dict[str, str]
    where: str = "true"

    def groups(self) -> list[Column]:
        """What to group by: the keys, then the window's start as `window_start`."""
        start = sf.lit(None).cast("timestamp") if self.window is None else sf.window("at", f"{self.window} seconds").start
        return [*(sf.expr(sql).alias(name) for name, sql in self.keys.items()), start.alias("window_start")]

    def aggregates(self) -> list[Column]:
        return [sf.expr(sql).alias(name) for name, sql in self.measures.items()]

    def columns(self) -> list[str]:
        """The columns that tell one answer of this view from another."""
        return [*self.keys, "window_start"]


SIX = (
    SparkView(
        "page_traffic",
        where="status < 500",
        keys={"page": "path"},
        window=MINUTE,
        measures={"hits": "count(*)", "bytes": "sum(bytes)"},
    ),
    SparkView(
        "section_visitors",
        keys={"section": "split_part(path, '/', 2)"},
        window=60 * MINUTE,
        measures={"requests": "count(*)"},
    ),
    SparkView(
        "route_latency",
        keys={"route": "regexp_replace(path, '[0-9]+', ':id')"},
        window=15 * MINUTE,
        measures={"slowest": "max(ms)", "requests": "count(*)"},
    ),
    SparkView("status_counts", keys={"status": "status"}, window=MINUTE, measures={"requests": "count(*)"}),
    SparkView(
        "user_bytes",
        keys={"user": "user"},
        window=1440 * MINUTE,
        measures={"bytes": "sum(bytes)", "largest": "max(bytes)", "requests": "count(*)"},
    ),
    SparkView(
        "totals",
        keys={},
        window=None,
        measures={"requests": "count(*)", "bytes": "sum(bytes)", "first": "min(at)", "last": "max(at)"},
    ),
)


def chosen(number: int) -> tuple[SparkView, ...]:
    """The first `number` of the six views."""
    return SIX[:number]
