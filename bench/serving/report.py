"""The results as a document and as text: times, how many times longer others took, and goals."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from rich.table import Table

from tandem.bench.serving import rates
from tandem.bench.serving.growing import Growth
from tandem.bench.serving.measuring import ByDuckDB, InProcess, Side
from tandem.bench.serving.over_http import OverHTTP
from tandem.bench.serving.questions import QuestionTimes
from tandem.bench.serving.rates import Rates

Found = Sequence[Side]
S = TypeVar("S", InProcess, OverHTTP, ByDuckDB)


@dataclass(frozen=True)
class Goal:
    """A goal: `at_least`, or `at_most`."""

    what: str
    found: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool:
        """Whether the result meets the goal."""
        above = self.at_least is None or self.found >= self.at_least
        return above and (self.at_most is None or self.found <= self.at_most)


def document(found: Found, growth: Growth, looked_up: Rates) -> dict[str, Any]:
    """Every figure in seconds and bytes; `times` by number of keys, `growth` from the smallest view to the largest.

    `rates` are of look-ups beside a bare handler.
    """
    return {
        "figures": [asdict(one) for one in found],
        "times": {str(keys): times(_at(found, keys)) for keys in _sizes(found)},
        "growth": asdict(growth),
        "rates": rates.document(looked_up),
        "goals": [{**asdict(goal), "met": goal.met} for goal in goals(found, growth, looked_up)],
        "agree": agree(found),
    }


def times(sides: Found) -> dict[str, float]:
    """How many times longer DuckDB over the files and in memory took for the same."""
    (own,), (http,), (duckdb, in_memory) = _of(sides, InProcess), _of(sides, OverHTTP), _of(sides, ByDuckDB)
    return {
        "row": duckdb.row.p50 / own.row.p50,
        "lookup": duckdb.lookup.p50 / own.lookup.p50,
        "row over HTTP": duckdb.row.p50 / http.row.p50,
        "lookup over HTTP": duckdb.lookup.p50 / http.lookup.p50,
        "range over HTTP": duckdb.scan.p50 / http.scan.p50,
        "top over HTTP": duckdb.top.p50 / http.top.p50,
        "DuckDB in memory, row": in_memory.row.p50 / own.row.p50,
        "DuckDB in memory, lookup": in_memory.lookup.p50 / own.lookup.p50,
        "DuckDB in memory, row over HTTP": in_memory.row.p50 / http.row.p50,
    }


def goals(found: Found, growth: Growth, looked_up: Rates) -> list[Goal]:
    """What the figures of one run should be, whatever the machine; of several sizes the worst."""
    by_size = [times(_at(found, keys)) for keys in _sizes(found)]
    servers = _of(found, OverHTTP)
    return [
        Goal("DuckDB / in process, one row", min(one["row"] for one in by_size), at_least=100),
        Goal("DuckDB / HTTP, one row", min(one["row over HTTP"] for one in by_size), at_least=3),
        Goal("largest / smallest view, one row", growth.row, at_most=1.3),
        Goal("largest / smallest view, 1,000 keys", growth.lookup, at_most=1.3),
        Goal("largest / smallest view, one row over HTTP", growth.row_over_http, at_most=1.3),
        Goal("largest / smallest view, 1,000 keys over HTTP", growth.lookup_over_http, at_most=1.3),
        Goal("look-ups / a bare FastAPI handler's, 8 connections", looked_up.ratio, at_least=0.6),
        Goal("the same for each second of CPU", looked_up.cpu_ratio, at_least=0.6),
        Goal("p99 of a look-up while others commit / alone", looked_up.p99_ratio, at_most=2),
        Goal("looks until a commit is counted, p99", max(one.polls for one in servers), at_most=2),
        Goal("a small statement in SQL, p50, ms", max(one.sql.p50 for one in servers) * 1e3, at_most=15),
    ]


def agree(found: Found) -> bool:
    """Whether all sides gave the same answers."""
    return all(len({one.sums for one in _at(found, keys)}) == 1 for keys in _sizes(found))


def tables(found: Found, growth: Growth, looked_up: Rates) -> Iterator[Table]:
    """The same for a person."""
    names = ("one row, us", "1,000 keys, ms", "range, ms", "top 10, ms", "SQL, ms", "SQL at once, ms", "commit seen, ms")
    asked = Table("keys", "by", *(f"{name}: p50 / p99" for name in names))
    for keys in _sizes(found):
        for number, one in enumerate(_at(found, keys)):
            rest = [_ms(getattr(one, name, None)) for name in ("lookup", "scan", "top", "sql", "sql_at_once", "visible")]
            asked.add_row("" if number else f"{keys:,}", one.by, f"{one.row.p50 * 1e6:,.0f} / {one.row.p99 * 1e6:,.0f}", *rest)
    yield asked
    kept = Table("keys", "open, s", "held, MiB", "peak, MiB", "commit of 1,000 keys p50, ms", "p99")
    for own in _of(found, InProcess):
        memory = (f"{number / 2**20:,.0f}" for number in (own.held, own.peak))
        spent = (f"{s * 1e3:.1f}" for s in (own.commit.p50, own.commit.p99))
        kept.add_row(f"{own.keys:,}", f"{own.open_s:.1f}", *memory, *spent)
    yield kept
    yield rates.table(looked_up)
    aimed = Table("aimed at", "found", "goal", "")
    for goal in goals(found, growth, looked_up):
        bound = f">= {goal.at_least:g}" if goal.at_least is not None else f"<= {goal.at_most:g}"
        aimed.add_row(goal.what, f"{goal.found:,.2f}", bound, "met" if goal.met else "missed")
    yield aimed


def _sizes(found: Found) -> list[int]:
    return sorted({one.keys for one in found})


def _at(found: Found, keys: int) -> list[Side]:
    return [one for one in found if one.keys == keys]


def _of(found: Found, kind: type[S]) -> list[S]:
    return [one for one in found if isinstance(one, kind)]


def _ms(one: QuestionTimes | None) -> str:
    return "" if one is None else f"{one.p50 * 1e3:,.1f} / {one.p99 * 1e3:,.1f}"
