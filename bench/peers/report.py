"""The result of the comparison as tables and as a document: medians over the rounds with bounds, and ratios within rounds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any, Final

from rich.table import Table

from tandem.bench.peers.catch_up import CaughtUp
from tandem.bench.peers.contestant import Contestant, Resources
from tandem.bench.peers.contestants.batch import BatchContestant
from tandem.bench.peers.estimates import CONFIDENCE, EstimateError, middle, quantile
from tandem.bench.peers.freshness import Fresh
from tandem.bench.peers.recompute import PeersRecompute
from tandem.bench.peers.rounds import Result

REFERENCE: Final = "tandem"


@dataclass(frozen=True)
class ReportFigure:
    """A figure of a run: its title, its value, and whether more of it is better."""

    title: str
    of: Callable[[Any], float | None]
    more_is_better: bool = False


CATCH_UP: Final = (
    ReportFigure("events/s", lambda run: run.per_second, more_is_better=True),
    ReportFigure("s to catch up", lambda run: run.seconds),
    ReportFigure("s to start", lambda run: run.start_s),
    ReportFigure("s of both", lambda run: run.whole_s),
    ReportFigure("CPU s", lambda run: run.cpu_s),
    ReportFigure("CPU s to start", lambda run: run.start_cpu_s),
    ReportFigure("broker's CPU s", lambda run: run.broker_cpu_s),
    ReportFigure("peak PSS, MB", lambda run: None if run.peak_bytes is None else run.peak_bytes / 1e6),
)


FRESH: Final = (
    ReportFigure("contestant's CPU, cores", lambda run: run.cpu),
    ReportFigure("its CPU while nobody asks", lambda run: run.unasked_cpu),
    ReportFigure("reader's CPU, cores", lambda run: run.reader_cpu),
    ReportFigure("broker's CPU, cores", lambda run: run.broker_cpu),
    ReportFigure("peak PSS, MB", lambda run: None if run.peak_bytes is None else run.peak_bytes / 1e6),
    ReportFigure("s to the first answer", lambda run: run.first_s),
)


RECOMPUTE: Final = (
    ReportFigure("events/s", lambda run: run.per_second, more_is_better=True),
    ReportFigure("s, warm", lambda run: run.seconds),
    ReportFigure("s, the first time", lambda run: run.first_s),
    ReportFigure("s to start", lambda run: run.start_s),
    ReportFigure("CPU s, warm", lambda run: run.cpu_s),
    ReportFigure("peak PSS, MB", lambda run: None if run.peak_bytes is None else run.peak_bytes / 1e6),
)
ARCHIVE: Final = tuple(figure for figure in RECOMPUTE if figure.title != "s, the first time")


def estimates(figures: Sequence[ReportFigure], runs: Sequence[Any]) -> Iterator[dict[str, Any]]:
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


def by_round(figure: ReportFigure, runs: Sequence[Any], name: str) -> dict[int, float]:
    """The values of a contestant, by the number of the round."""
    return {run.round: value for run in runs if run.contestant == name and (value := figure.of(run)) is not None}


def _better(figure: ReportFigure, theirs: float, ours: float) -> float:
    return theirs / ours if figure.more_is_better else ours / theirs


def described(contestants: Sequence[Contestant | BatchContestant], resources: Resources) -> list[dict[str, Any]]:
    """The version of each contestant, and its settings: `settings` for full topics and files, `fresh` for freshness.

    Tandem, which takes part everywhere with the same settings, is listed once.
    """
    fresh = replace(resources, fresh=True)
    return [
        {"name": name, "version": one.version(), "settings": one.settings(resources), "fresh": one.settings(fresh)}
        for name, one in {one.name: one for one in contestants}.items()
    ]


def delays(runs: Sequence[Fresh]) -> Iterator[dict[str, Any]]:
    """The p50 and p99 of each contestant's delays in seconds, over the markers of all rounds together.

    A marker that was not seen counts as slower than all others, so a percentile among such markers is None.
    """
    for name in dict.fromkeys(run.contestant for run in runs):
        theirs = [run for run in runs if run.contestant == name]
        overdue = sum(run.overdue for run in theirs)
        pooled = [delay for run in theirs for delay in run.delays] + [inf] * overdue
        if pooled:
            found = {share: quantile(pooled, share) for share in (0.5, 0.99)}
            warm = [run.triggers for run in theirs]
            yield {
                "contestant": name,
                "overdue": overdue,
                "warm_up": warm,
                **{f"p{share:.0%}"[:-1]: _known(one) for share, one in found.items()},
            }


def _known(one: EstimateError) -> dict[str, Any]:
    return {name: None if value == inf else value for name, value in asdict(one).items()}


def document(runs: Sequence[Result], contestants: list[dict[str, Any]], machine: dict[str, Any]) -> dict[str, Any]:
    """Every run, every estimate, and whether every contestant's answer was right (`agree`)."""
    caught_up, fresh, recomputed, archived = _parts(runs)
    return {
        "machine": machine,
        "contestants": contestants,
        "agree": bool(runs) and all(run.differ == 0 for run in runs),
        "catch_up": {"estimates": list(estimates(CATCH_UP, caught_up)), "runs": [asdict(run) for run in caught_up]},
        "recompute": {"estimates": list(estimates(RECOMPUTE, recomputed)), "runs": [asdict(run) for run in recomputed]},
        "archive": {"estimates": list(estimates(ARCHIVE, archived)), "runs": [asdict(run) for run in archived]},
        "freshness": {
            "delays": list(delays(fresh)),
            "estimates": list(estimates(FRESH, fresh)),
            "runs": [asdict(run) for run in fresh],
        },
    }


def tables(runs: Sequence[Result], contestants: list[dict[str, Any]], machine: dict[str, Any]) -> Iterator[Table | str]:
    """The machine, versions and settings, then a table for each part that was measured."""
    yield "machine: " + ", ".join(f"{name} {value}" for name, value in machine.items())
    caught_up, fresh, recomputed, archived = _parts(runs)
    yield from _settings(contestants)
    if caught_up:
        yield _figures(f"catch-up with {caught_up[0].events:,} events", CATCH_UP, caught_up)
    if recomputed:
        yield _figures(f"recompute of {recomputed[0].events:,} events", RECOMPUTE, recomputed)
    if archived:
        yield _figures(f"archive of {archived[0].events:,} events", ARCHIVE, archived)
    if fresh:
        yield _delays(fresh)
        yield _figures("at a steady rate", FRESH, fresh)


def _parts(runs: Sequence[Result]) -> tuple[list[CaughtUp], list[Fresh], list[PeersRecompute], list[PeersRecompute]]:
    return (
        [run for run in runs if isinstance(run, CaughtUp)],
        [run for run in runs if isinstance(run, Fresh)],
        [run for run in runs if isinstance(run, PeersRecompute) and run.part == "recompute"],
        [run for run in runs if isinstance(run, PeersRecompute) and run.part == "archive"],
    )


def _delays(runs: Sequence[Fresh]) -> Table:
    title = f"freshness: ms from sending to being seen, markers of all rounds; bounds with {CONFIDENCE:.0%} confidence"
    shown = Table("", "p50", "p99", "markers", "not seen", "publications of warm-up", title=title, title_justify="left")
    for one in delays(runs):
        shown.add_row(
            one["contestant"],
            _bounded(one["p50"]),
            _bounded(one["p99"]),
            str(one["p50"]["n"]),
            str(one["overdue"]),
            ", ".join(map(str, one["warm_up"])),
        )
    return shown


def _bounded(one: dict[str, Any]) -> str:
    value, low, high = (None if one[name] is None else f"{1000 * one[name]:,.0f}" for name in ("value", "low", "high"))
    return f"{value or 'unknown'} [{low or 'unknown'}, {high or 'unknown'}]"


def problems(runs: Sequence[Result]) -> Iterator[str]:
    """What was not measured, and why."""
    for run in runs:
        if run.problem or run.differ:
            wrong = f"{run.differ} of {run.rows} rows differ from the truth; " if run.differ else ""
            yield f"{run.part}, {run.contestant}, round {run.round + 1}: {wrong}{run.problem}".removesuffix("; ")


def _settings(contestants: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each contestant: its version and what differs from its defaults."""
    for one in contestants:
        changed = [f"{name}={value}" for name, value in one["settings"].items()]
        changed += [f"{name}={value} (freshness)" for name, value in one["fresh"].items() if one["settings"].get(name) != value]
        yield f"{one['name']} {one['version']}: {', '.join(changed)}"


def _figures(title: str, figures: Sequence[ReportFigure], runs: Sequence[Any]) -> Table:
    """A row for each figure and contestant: the median, its bounds over the rounds, and the ratio to Tandem.

    A contestant may have been measured in fewer rounds than the others, and then knows its median less well.
    """
    shown = Table(title=f"{title}; confidence that least and greatest hold the median of more rounds", title_justify="left")
    for heading in ("figure", "contestant"):
        shown.add_column(heading, no_wrap=True)
    for heading in ("median", "least", "greatest", "rounds", "confidence", "times better than tandem"):
        shown.add_column(heading, justify="right")
    before = ""
    for one in estimates(figures, runs):
        ratio = one["ratio"]
        better = "" if ratio is None else f"{ratio['value']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]"
        title = one["figure"] if one["figure"] != before else ""
        if title and before:
            shown.add_section()
        before = one["figure"]
        bounds = (number(one[name]) for name in ("value", "low", "high"))
        shown.add_row(title, one["contestant"], *bounds, str(one["n"]), f"{one['confidence']:.0%}", better)
    return shown


def number(value: float) -> str:
    """A figure with as many digits as a reader needs."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
