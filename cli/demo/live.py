"""`tandem demo`: shows the running platform on a terminal, until Ctrl-C."""

import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tandem.cli.demo.scheduler import Scheduler
from tandem.cli.demo.stage import DemoChild, Stage
from tandem.cli.demo.watcher import Look, Watcher
from tandem.serving.read.provenance import Layer

_TICK_S = 0.5
_PAUSE_S = 20.0
_RATE_OVER_S = 10.0
_ROWS = 6
_LOOK_S = 5.0
_LAYERS: tuple[Layer, ...] = ("batch", "speed", "merged")


def show(stage: Stage, watcher: Watcher, console: Console, rate: float, runs: Scheduler | None = None) -> None:
    """Send events without end, run one batch after another, and show the progress. Ends by KeyboardInterrupt.

    With a scheduler, the scheduler runs the batches.
    """
    stage.start("generate", f"--rate={rate}")
    steps = _batches(stage) if runs is None else _scheduled(runs)
    seen: deque[tuple[float, int]] = deque()
    with Live(console=console, auto_refresh=False) as live:
        while True:
            stage.check()
            running = next(steps)
            look = watcher.look()
            if look is not None:
                seen.append((time.monotonic(), sum(look.log_end.values())))
                while seen[-1][0] - seen[0][0] > _RATE_OVER_S:
                    seen.popleft()
                live.update(Group(*_display(watcher, look, _slope(seen), running)), refresh=True)
            time.sleep(_TICK_S)


def _batches(stage: Stage) -> Iterator[str]:
    """The current work of the batch layer: archive and recompute, then a pause, and so on."""
    while True:
        child: DemoChild = stage.start("recompute", "--archive")
        while child.popen.poll() is None:
            yield "`tandem recompute --archive` runs"
        until = time.monotonic() + _PAUSE_S
        while (left := until - time.monotonic()) > 0:
            yield f"next batch in {left:.0f} s"


def _scheduled(runs: Scheduler) -> Iterator[str]:
    """The current work of Airflow, polled every few seconds."""
    while True:
        told = runs.told()
        until = time.monotonic() + _LOOK_S
        while time.monotonic() < until:
            yield told


def _slope(seen: deque[tuple[float, int]]) -> float:
    seconds = seen[-1][0] - seen[0][0]
    return (seen[-1][1] - seen[0][1]) / seconds if seconds else 0.0


def _display(watcher: Watcher, look: Look, per_second: float, running: str) -> Iterator[Any]:
    freshness = "no events counted yet" if look.freshness is None else f"{look.freshness:.2f} s"
    yield Text(
        f"{per_second:,.0f} events/s in   newest event counted is {freshness} old   publication {look.publication}   {running}"
    )
    yield _positions(look)
    yield from _answer(watcher)
    yield Text("Ctrl-C stops all parts of this demo", style="dim")


def _positions(look: Look) -> Table:
    table = Table("layer", "contents", title="the log, and the progress of each layer", title_justify="left")
    table.add_column("records", justify="right")
    table.add_column("behind the log", justify="right")
    end = sum(look.log_end.values())
    for layer, what, position in (
        ("log", "all acknowledged records", look.log_end),
        ("archive", "copied byte for byte", look.archived),
        ("batch", "below the cut, counted in batch views", look.cut),
        ("speed", "after the cut, counted in realtime views", look.realtime),
    ):
        records = sum(position.values())
        table.add_row(layer, what, f"{records:,}", f"{end - records:,}")
    return table


def _answer(watcher: Watcher) -> Iterator[Table]:
    """One view as batch + realtime = merged, all at one snapshot: the first view without keys (one row), else the first view."""
    name = next((name for name, view in watcher.views.items() if not view.keys), next(iter(watcher.views)))
    view = watcher.views[name]
    layers = {layer: {_place(row, view.measures): row for row in watcher.answer(name, layer).rows()} for layer in _LAYERS}
    table = Table(*view.keys, "window", "measure", title=f"view {name}", title_justify="left")
    for title in ("batch", "+ realtime", "= merged"):
        table.add_column(title, justify="right")
    for place in list(layers["merged"])[-_ROWS:]:
        merged = layers["merged"][place]
        for measure in view.measures:
            values = [_value(layers[layer].get(place, {}).get(measure)) for layer in _LAYERS]
            table.add_row(*(str(merged[key]) for key in view.keys), merged["window_start"] or "all time", measure, *values)
    if table.row_count:
        yield table


def _place(row: dict[str, Any], measures: Any) -> str:
    return str({name: value for name, value in row.items() if name not in measures})


def _value(value: Any) -> str:
    match value:
        case None:
            return "-"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.2f}"
        case dict():
            return "  ".join(f"{name}: {inner:,.2f}" for name, inner in value.items())
        case _:
            return str(value)
