"""Answers of every system in one form, so that they can be compared with the truth and so with each other."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bench.stock.jobs.spark_views import SparkView

Answers = dict[str, dict[tuple[Any, ...], tuple[Any, ...]]]
"""View to: keys and window start, to measures, times as UTC datetimes."""


def answers(views: Sequence[SparkView], rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Answers:
    """The rows of each view, as `query --json` prints them or as a table holds them."""
    return {
        view.name: {
            tuple(_plain(row[name]) for name in view.columns()): tuple(_plain(row[name]) for name in view.measures)
            for row in rows[view.name]
        }
        for view in views
    }


def differing(truth: Answers, found: Answers) -> int:
    """The number of rows that one side lacks, or that have other measures."""
    return sum(
        rows.get(place) != found[view].get(place) for view, rows in truth.items() for place in rows.keys() | found[view].keys()
    )


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, str) and len(value) > 19 and value[4:5] == "-" and value.endswith("Z"):
        return datetime.fromisoformat(value)
    return value
