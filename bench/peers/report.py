"""The result of the comparison as tables and as a document: medians over the rounds with bounds, and ratios within rounds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from rich.table import Table

from bench.peers.catch_up import CaughtUp
from bench.peers.contestant import Contestant, Resources
from bench.peers.estimates import Estimate, middle

REFERENCE: Final = "tandem"


@dataclass(frozen=True)
class Figure:
    """A figure of a run: its title, its value, and whether more of it is better."""

    title: str
    of: Callable[[Any], float | None]
    more_is_better: bool = False


CATCH_UP: Final = (
    Figure("events/s", lambda run: run.per_second, more_is_better=True),
    Figure("s to catch up", lambda run: run.seconds),
    Figure("s to start", lambda run: run.start_s),
    Figure("s of both", lambda run: run.whole_s),
    Figure("CPU s", lambda run: run.cpu_s),
    Figure("CPU s to start", lambda run: run.start_cpu_s),
    Figure("broker's CPU s", lambda run: run.broker_cpu_s),
    Figure("peak PSS, MB", lambda run: None if run.peak_bytes is None else run.peak_bytes / 1e6),
)


def estimates(figures: Sequence[Figure], runs: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Each figure of each contestant: its median and bounds, and how it compares with Tandem's of the same round.

    A `ratio` above 1 means that the contestant was better than Tandem, whichever way the figure is better.
    """
    for figure in figures:
        own = by_round(figure, runs, REFERENCE)
        for name in dict.fromkeys(run.contestant for run in runs):
            found = by_round(figure, runs, name)
            if not found:
                continue
            shared = sorted(own.keys() & found.keys())
            ratios = [_better(figure, found[number], own[number]) for number in shared if own[number] and found[number]]
            yield {
                "figure": figure.title,
                "contestant": name,
                **asdict(middle(list(found.values()))),
                "ratio": asdict(middle(ratios)) if ratios and name != REFERENCE else None,
            }


def by_round(figure: Figure, runs: Sequence[Any], name: str) -> dict[int, float]:
    """The values of a contestant, by the number of the round."""
    return {run.round: value for run in runs if run.contestant == name and (value := figure.of(run)) is not None}


def _better(figure: Figure, theirs: float, ours: float) -> float:
    return theirs / ours if figure.more_is_better else ours / theirs


def described(contestants: Sequence[Contestant], resources: Resources) -> list[dict[str, Any]]:
    """The version of each contestant, and its settings for catching up (`settings`) and for freshness (`fresh`)."""
    fresh = replace(resources, fresh=True)
    return [
        {"name": one.name, "version": one.version(), "settings": one.settings(resources), "fresh": one.settings(fresh)}
        for one in contestants
    ]


def document(caught_up: Sequence[CaughtUp], contestants: list[dict[str, Any]], machine: dict[str, Any]) -> dict[str, Any]:
    """Every run, every estimate, and whether every contestant's answer was right (`agree`)."""
    return {
        "machine": machine,
        "contestants": contestants,
        "agree": bool(caught_up) and all(run.differ == 0 for run in caught_up),
        "catch_up": {"estimates": list(estimates(CATCH_UP, caught_up)), "runs": [asdict(run) for run in caught_up]},
    }


def tables(caught_up: Sequence[CaughtUp], contestants: list[dict[str, Any]]) -> Iterator[Table]:
    """Versions and settings, then a table for each part."""
    yield _settings(contestants)
    yield _figures(f"catch-up with {caught_up[0].events:,} events" if caught_up else "catch-up", CATCH_UP, caught_up)


def problems(runs: Sequence[CaughtUp]) -> Iterator[str]:
    """What was not measured, and why."""
    for run in runs:
        if run.problem:
            wrong = f"{run.differ} of {run.rows} rows differ from the truth; " if run.differ else ""
            yield f"{run.contestant}, round {run.round + 1}: {wrong}{run.problem}"


def _settings(contestants: list[dict[str, Any]]) -> Table:
    shown = Table("contestant", "version", "settings beside its defaults", title="contestants", title_justify="left")
    for one in contestants:
        changed = [f"{name}={value}" for name, value in one["settings"].items()]
        changed += [f"{name}={value} (freshness)" for name, value in one["fresh"].items() if one["settings"].get(name) != value]
        shown.add_row(one["name"], one["version"], "\n".join(changed))
    return shown


def _figures(title: str, figures: Sequence[Figure], runs: Sequence[Any]) -> Table:
    """Rows are contestants: the median, its bounds over the rounds, and the ratio to Tandem, above 1 if better than it."""
    rounds = len({run.round for run in runs})
    sure = middle([0.0] * rounds).confidence if rounds else 0.0
    bounds = f"median [least, greatest] of {rounds} rounds: they hold the median of more rounds with {sure:.0%} confidence"
    shown = Table("", title=f"{title}; {bounds if rounds > 1 else 'one round, without bounds'}", title_justify="left")
    for figure in figures:
        shown.add_column(figure.title, justify="right")
    found = {(one["contestant"], one["figure"]): one for one in estimates(figures, runs)}
    for name in dict.fromkeys(run.contestant for run in runs):
        shown.add_row(name, *(_cell(found.get((name, figure.title)), rounds) for figure in figures))
    return shown


def _cell(one: dict[str, Any] | None, rounds: int) -> str:
    if one is None:
        return "-"
    text = number(one["value"])
    if rounds > 1:
        text += f" [{number(one['low'])}, {number(one['high'])}]"
    return f"{text}  {one['ratio']['value']:.2f}x" if one["ratio"] else text


def number(value: float) -> str:
    """A figure with as many digits as a reader needs."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


__all__ = ["CATCH_UP", "Estimate", "Figure", "described", "document", "estimates", "problems", "tables"]
