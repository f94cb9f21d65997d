"""What the comparison found, as a table and as a document: medians over the rounds, and ratios to Tandem with their spread."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.table import Table

from bench.stock.measuring import Run
from bench.stock.recomputing import RECOMPUTERS, Recompute
from bench.stock.systems import SYSTEMS


@dataclass(frozen=True)
class Figure:
    """A figure of a run: its title, its name there, and whether more of it is better."""

    title: str
    name: str
    more_is_better: bool


STREAMING = (
    Figure("freshness p50, s", "p50", more_is_better=False),
    Figure("freshness p99, s", "p99", more_is_better=False),
    Figure("events/s, draining a backlog", "backlog_per_s", more_is_better=True),
    Figure("CPU s per million events, steady", "steady_cpu", more_is_better=False),
    Figure("CPU s per million events, backlog", "backlog_cpu", more_is_better=False),
)
RECOMPUTING = (
    Figure("events/s recomputed from the raw log", "raw_per_s", more_is_better=True),
    Figure("events/s recomputed from the events table", "events_per_s", more_is_better=True),
)


def document(runs: Sequence[Run | Recompute], machine: dict[str, Any], minutes: float) -> dict[str, Any]:
    """Every run and every ratio. `agree` says whether all that was compared with the truth agreed with it."""
    compared = [run for run in runs if run.rows]
    return {
        "machine": machine,
        "minutes": round(minutes, 1),
        "agree": bool(compared) and all(run.differ == 0 for run in compared),
        "ratios": list(ratios(runs)),
        "streaming": [asdict(run) for run in runs if isinstance(run, Run)],
        "recompute": [asdict(run) for run in runs if isinstance(run, Recompute)],
    }


def ratios(runs: Sequence[Run | Recompute]) -> Iterator[dict[str, Any]]:
    """For each figure, how many times better Tandem was than each other system: in the median round, the worst and the best.

    Only rounds in which both have the figure are compared: n says how many those were.
    """
    streamed = [run for run in runs if isinstance(run, Run)]
    for views in sorted({run.views for run in streamed}):
        yield from _ratios(STREAMING, [run for run in streamed if run.views == views], [s.name for s in SYSTEMS], views=views)
    yield from _ratios(RECOMPUTING, [run for run in runs if isinstance(run, Recompute)], list(RECOMPUTERS), views=6)
    yield from _across([run for run in runs if isinstance(run, Recompute)])


def _ratios(figures: Iterable[Figure], runs: Sequence[Any], systems: list[str], *, views: int) -> Iterator[dict[str, Any]]:
    for figure in figures:
        own = _by_round(runs, "tandem", figure.name)
        for system in systems:
            if system != "tandem":
                yield _ratio(figure, own, _by_round(runs, system, figure.name), against=system, views=views)


def _across(runs: Sequence[Recompute]) -> Iterator[dict[str, Any]]:
    """What the events table gains over stock Spark from raw: the recompute as each would be run."""
    figure = Figure("events/s, Tandem from the events table, others from the raw log", "recompute", more_is_better=True)
    own = _by_round(runs, "tandem", "events_per_s")
    for system in RECOMPUTERS[1:]:
        yield _ratio(figure, own, _by_round(runs, system, "raw_per_s"), against=system, views=6)


def _ratio(figure: Figure, own: dict[int, float], other: dict[int, float], *, against: str, views: int) -> dict[str, Any]:
    better = [
        own[number] / other[number] if figure.more_is_better else other[number] / own[number]
        for number in sorted(own.keys() & other.keys())
    ]
    spread = {"median": round(median(better), 2), "worst": round(min(better), 2), "best": round(max(better), 2)} if better else {}
    return {"figure": figure.title, "views": views, "against": against, "n": len(better), **spread}


def _by_round(runs: Sequence[Any], system: str, name: str) -> dict[int, float]:
    return {run.round: value for run in runs if run.system == system and (value := getattr(run, name)) is not None}


def table(runs: Sequence[Run | Recompute]) -> Iterator[Table]:
    """A table for each number of views, one for recomputes: medians over the rounds, and how many times better Tandem was."""
    streamed = [run for run in runs if isinstance(run, Run)]
    for views in sorted({run.views for run in streamed}):
        these = [run for run in streamed if run.views == views]
        shown = _table(f"{views} views at a steady rate, then a backlog" if views > 1 else "1 view", STREAMING, these, views)
        triggers = {system.name: sum(run.triggers for run in these if run.system == system.name) for system in SYSTEMS}
        shown.add_row("triggers measured", *map(str, triggers.values()))
        yield shown
    yield _table("recompute of 6 views", RECOMPUTING, [run for run in runs if isinstance(run, Recompute)], 6)


def problems(runs: Sequence[Run | Recompute]) -> Iterator[str]:
    """What was not measured and why, and what did not agree with the truth."""
    for run in runs:
        place = f"round {run.round + 1}, {run.system}" + (f", {run.views} views" if isinstance(run, Run) else ", recompute")
        if run.problem:
            yield f"{place}: {run.problem}"
        if run.differ:
            yield f"{place}: {run.differ} of {run.rows} rows differ from the truth"
        if isinstance(run, Run) and run.overdue:
            yield f"{place}: {run.overdue} of {run.overdue + len(run.freshness)} markers were not counted in time"


def _table(title: str, figures: Sequence[Figure], runs: Sequence[Any], views: int) -> Table:
    systems = list(dict.fromkeys(["tandem", *(run.system for run in runs)]))
    shown = Table("", title=title, title_justify="left")
    for system in systems:
        shown.add_column(system, justify="right")
    for figure in figures:
        found = {r["against"]: r for r in _ratios([figure], runs, systems, views=views)}
        shown.add_row(figure.title, *(_cell(_by_round(runs, system, figure.name), found.get(system)) for system in systems))
    return shown


def _cell(values: dict[int, float], ratio: dict[str, Any] | None) -> str:
    if not values:
        return "-"
    middle = median(values.values())
    text = f"{middle:,.2f}" if middle < 100 else f"{middle:,.0f}"
    if ratio is None or not ratio["n"]:
        return text
    return f"{text}  ({ratio['median']}x, {ratio['worst']}-{ratio['best']})"
