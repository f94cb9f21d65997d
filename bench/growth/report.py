"""The result as a document and as a table: a line for each size, and where each axis bends."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from rich.table import Table

from tandem.bench.growth.measuring import Axis, Grown

BENT: Final = 1.5
"""An axis bends at a size whose cost for each event and view is this many times that of the size before."""


def document(found: Sequence[Grown]) -> dict[str, Any]:
    """All figures; `right` if every answer of every size was."""
    sizes = [
        {
            "axis": one.axis,
            **vars(one.size),
            "seconds": round(one.seconds, 3),
            "cpu_s": round(one.cpu_s, 3),
            "peak_bytes": one.peak_bytes,
            "each_us": round(one.each_us, 3),
            "duckdb_s": one.duckdb_s and round(one.duckdb_s, 3),
            "right": one.right,
        }
        for one in found
    ]
    return {"right": all(one.right for one in found), "sizes": sizes, "bends": list(bends(found)), "slopes": list(slopes(found))}


def bends(found: Sequence[Grown]) -> Iterator[str]:
    """A sentence for each axis: the sizes at which the cost of an event and view rises most steeply, if it does."""
    for axis in dict.fromkeys(one.axis for one in found):
        along = [one for one in found if one.axis == axis]
        steep = [(before, one) for before, one in pairwise(along) if one.each_us > BENT * before.each_us]
        if not steep:
            yield f"{axis}: the cost of an event and view nowhere rises {BENT} times from one size to the next"
        for before, one in steep:
            yield (
                f"{axis}: bends at {_size(axis, one):,}, where an event and view cost {one.each_us / before.each_us:.1f} times "
                f"what they cost at {_size(axis, before):,}"
            )


def slopes(found: Sequence[Grown]) -> Iterator[str]:
    """A sentence for each step of the number of events: what a further event costs, compared with DuckDB."""
    along = [one for one in found if one.axis == "events"]
    for before, one in pairwise(along):
        if one.duckdb_s and before.duckdb_s and one.duckdb_s > before.duckdb_s:
            times = (one.seconds - before.seconds) / (one.duckdb_s - before.duckdb_s)
            yield (
                f"events: from {before.size.events:,} to {one.size.events:,} each further event costs {times:.2f} times what it "
                "costs DuckDB"
            )


def table(found: Sequence[Grown]) -> Table:
    """A line for each size. `of the first` compares the cost of an event and view with the first size of its axis.

    The time for all of it is also compared with DuckDB's.
    """
    shown = Table(title="full recompute, warm", title_justify="left")
    costs = ("s", "CPU s", "peak PSS, MB", "µs an event and view", "of the first", "DuckDB, s", "times DuckDB's")
    for heading in ("grows", "events", "views", "keys", *costs, "right"):
        shown.add_column(heading, justify="left" if heading == "grows" else "right")
    first: dict[str, Grown] = {}
    for one in found:
        before = first.setdefault(one.axis, one)
        size = (f"{one.size.events:,}", f"{one.size.views}", f"{one.size.keys:,}")
        figures = (f"{one.seconds:.2f}", f"{one.cpu_s:.2f}", f"{one.peak_bytes / 1e6:,.0f}", f"{one.each_us:.2f}")
        beside = (f"{one.duckdb_s:.2f}", f"{one.seconds / one.duckdb_s:.2f}") if one.duckdb_s else ("", "")
        of_first = f"{one.each_us / before.each_us:.2f}"
        shown.add_row(one.axis, *size, *figures, of_first, *beside, "yes" if one.right else "NO")
    return shown


def _size(axis: Axis, one: Grown) -> int:
    size: int = vars(one.size)[axis]
    return size
