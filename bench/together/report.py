"""The document and the tables of `bench together`."""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from rich.console import Group
from rich.table import Table

from tandem.bench.peers.estimates import quantile
from tandem.bench.together.an_hour import MINUTES, HourOfMemory
from tandem.bench.together.answering import TogetherRun
from tandem.bench.together.freshness import FreshAnswers
from tandem.bench.together.measuring import Result
from tandem.bench.together.questions import COSTS, FeatureCost
from tandem.bench.together.systems import TANDEM


def document(results: Sequence[Result]) -> dict[str, Any]:
    """Every run, what features cost, and whether Tandem's answers were right after its recompute."""
    runs = [each for each in results if isinstance(each, TogetherRun)]
    ours = [each for each in results if each.system == TANDEM.name]
    after = [run.recomputed for run in runs if run.recomputed is not None]
    return {
        "runs": [asdict(run) for run in runs],
        "costs": [{"says": cost.says, "aim": cost.aim, "ratios": ratios(cost, runs)} for cost in COSTS],
        "freshness": [asdict(each) for each in results if isinstance(each, FreshAnswers)],
        "memory": [asdict(each) for each in results if isinstance(each, HourOfMemory)],
        "right": bool(after) and not any(after) and not any(each.problem for each in ours),
    }


def ratios(cost: FeatureCost, runs: Sequence[TogetherRun]) -> list[float]:
    """By turn, the CPU seconds of a question as a multiple of those beside it."""
    cpu = {(run.question, run.turn): run.cpu_s for run in runs if run.turn}
    pairs = [
        (cpu.get((cost.question.name, turn)), cpu.get((cost.beside.name, turn))) for turn in sorted({turn for _, turn in cpu})
    ]
    return [ours / theirs for ours, theirs in pairs if ours and theirs]


def tables(results: Sequence[Result]) -> Group:
    """The runs for a terminal."""
    runs = [each for each in results if isinstance(each, TogetherRun)]
    fresh = [each for each in results if isinstance(each, FreshAnswers)]
    hours = [each for each in results if isinstance(each, HourOfMemory)]
    return Group(_runs(runs), *_costs(runs), _freshness(fresh), _hours(hours))


def _runs(runs: Sequence[TogetherRun]) -> Table:
    shown = Table("question", "system", "events/s", "CPU s/million", "peak MB", "wrong rows", "after recompute", box=None)
    for run in runs:
        shown.add_row(
            run.question,
            run.system,
            "-" if not run.seconds else f"{run.events / run.seconds:,.0f}",
            "-" if run.cpu_s is None else f"{run.cpu_s / run.events * 1e6:.1f}",
            "-" if run.peak_bytes is None else f"{run.peak_bytes / 1e6:,.0f}",
            run.problem or f"{run.wrong:,} of {run.rows:,}",
            "" if run.recomputed is None else f"{run.recomputed:,}",
        )
    return shown


def _costs(runs: Sequence[TogetherRun]) -> list[str]:
    lines = []
    for cost in COSTS:
        if of_turns := ratios(cost, runs):
            turns = ", ".join(f"{ratio:.2f}" for ratio in of_turns)
            lines.append(f"{cost.says}: {median(of_turns):.2f} times the CPU (aim: at most {cost.aim:g}; by turn {turns})")
    return lines


def _freshness(runs: Sequence[FreshAnswers]) -> Table:
    shown = Table("question", "system", "p50 s", "p99 s", "not seen", "cores", box=None)
    for run in runs:
        p50, p99 = (f"{quantile(run.delays, share).value:.2f}" if run.delays else "-" for share in (0.5, 0.99))
        overdue = run.problem or f"{run.overdue} of {run.overdue + len(run.delays)}"
        shown.add_row(run.question, run.system, p50, p99, overdue, "-" if run.cpu is None else f"{run.cpu:.2f}")
    return shown


def _hours(runs: Sequence[HourOfMemory]) -> Table:
    parts = [f"{MINUTES * number}" for number in range(1, 60 // MINUTES + 1)]
    shown = Table("question", "system", *(f"MB at {part} min" for part in parts), "", box=None)
    for run in runs:
        for name, peaks in ((run.system, run.peaks), *([("its recompute", run.batch)] if run.batch else [])):
            cells = [f"{peak / 1e6:,.0f}" for peak in peaks]
            shown.add_row(run.question, name, *cells, *[""] * (len(parts) - len(cells)), run.problem)
    return shown
