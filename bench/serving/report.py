"""What was measured, as a document and for a person: times, and how many times longer DuckDB took."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from bench.serving.measuring import ByDuckDB, InProcess

Found = Sequence[InProcess | ByDuckDB]


def document(found: Found) -> dict[str, Any]:
    """Every figure in seconds and bytes; `times` by number of keys, `growth` from the smallest view to the largest."""
    pairs = _pairs(found)
    return {
        "figures": [asdict(one) for one in found],
        "times": {
            str(own.keys): {"row": other.row.p50 / own.row.p50, "lookup": other.lookup.p50 / own.lookup.p50}
            for own, other in pairs
        },
        "growth": growth([own for own, _ in pairs]),
        "agree": agree(found),
    }


def growth(own: Sequence[InProcess]) -> dict[str, float]:
    """How many times as long the medians of one row and of many keys are in the largest view as in the smallest."""
    least, most = min(own, key=lambda one: one.keys), max(own, key=lambda one: one.keys)
    return {"row": most.row.p50 / least.row.p50, "lookup": most.lookup.p50 / least.lookup.p50}


def agree(found: Found) -> bool:
    """Whether both sides answered the same."""
    return all(own.sums == other.sums for own, other in _pairs(found))


def tables(found: Found) -> Iterator[Table]:
    """The same for a person."""
    asked = Table("keys", "by", "row p50, us", "p99", "1,000 keys p50, ms", "p99", "times longer, row", "1,000 keys")
    for own, other in _pairs(found):
        asked.add_row(f"{own.keys:,}", own.by, *_times(own), "", "")
        ratios = (f"{other.row.p50 / own.row.p50:,.0f}", f"{other.lookup.p50 / own.lookup.p50:,.0f}")
        asked.add_row("", other.by, *_times(other), *ratios)
    yield asked
    kept = Table("keys", "open, s", "held, MiB", "peak, MiB", "commit of 1,000 keys p50, ms", "p99")
    for own, _ in _pairs(found):
        memory = (f"{number / 2**20:,.0f}" for number in (own.held, own.peak))
        kept.add_row(f"{own.keys:,}", f"{own.open_s:.1f}", *memory, *(f"{s * 1e3:.1f}" for s in (own.commit.p50, own.commit.p99)))
    yield kept
    grown = growth([own for own, _ in _pairs(found)])
    yield Table("from the smallest to the largest", *(f"{what}: {times:.2f} times" for what, times in grown.items()))


def _pairs(found: Found) -> list[tuple[InProcess, ByDuckDB]]:
    others = {one.keys: one for one in found if isinstance(one, ByDuckDB)}
    return [(one, others[one.keys]) for one in found if isinstance(one, InProcess)]


def _times(one: InProcess | ByDuckDB) -> list[str]:
    return [f"{s * 1e6:,.0f}" for s in (one.row.p50, one.row.p99)] + [f"{s * 1e3:,.1f}" for s in (one.lookup.p50, one.lookup.p99)]
