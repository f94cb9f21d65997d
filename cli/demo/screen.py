"""The demo's screen: what happens and what comes next, answers as batch + realtime = merged, and the sum in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tandem.cli.demo.layered_values import LayeredValue, Scene, time_text

_OTHERS: Final = 4
"""Lines of measures that are not sums: the screen has 24 lines."""


@dataclass(frozen=True)
class Activity:
    """What the platform does now, and what comes next."""

    now: str
    next: str


def screen(scene: Scene | None, activity: Activity, per_second: float, notes: Sequence[str] = ()) -> RenderableType:
    """The whole screen; without a scene only the activity. `notes` are lines of what was counted right."""
    return Group(*_parts(scene, activity, per_second, notes))


def _parts(scene: Scene | None, activity: Activity, per_second: float, notes: Sequence[str]) -> Iterator[RenderableType]:
    yield _with_label("now", activity.now)
    yield _with_label("next", activity.next)
    if scene is not None:
        yield Text()
        yield from _tables(scene.values)
        if sum(scene.look.log_end.values()):
            yield from map(Text, _words(scene, per_second))
    if notes:
        yield Text()
        yield from (_with_label(*note.split(" ", 1)) for note in notes)
    yield Text("\nCtrl-C stops all parts of this demo", style="dim")


def _with_label(label: str, text: str) -> RenderableType:
    line = Table.grid(padding=(0, 1))
    line.add_column(width=9, style="bold")
    line.add_column()
    line.add_row(label, Text(text))
    return line


def _words(scene: Scene, per_second: float) -> Iterator[str]:
    look = scene.look
    below, after, end = sum(look.cut.values()), look.tail, sum(look.log_end.values())
    yield f"below the cut {below:,} records from batch, from there {after:,} from speed:"
    age = "" if look.freshness is None else f", the newest {look.freshness:.1f} s old"
    yield f"{below + after:,} of the log's {max(end, below + after):,} records{age}; {per_second:,.0f} more a second"


def _tables(values: Sequence[LayeredValue]) -> Iterator[RenderableType]:
    sums = [value for value in values if value.sums]
    others = [value for value in values if not value.sums and not isinstance(value.merged, dict | list)][:_OTHERS]
    if not sums:
        return
    shown = [*sums, *others]
    widths = [max(map(len, column)) for column in zip(*((value.place, value.measure) for value in shown), strict=True)]
    yield _table(sums, widths, header=True)
    if others:
        yield Text("not sums: the states of both layers are merged", style="dim")
        yield _table(others, widths, header=False)
    yield Text()


def _table(values: Sequence[LayeredValue], widths: Sequence[int], *, header: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_header=header, header_style="bold", expand=True)
    for title, width in zip(("view", "measure"), widths, strict=True):
        table.add_column(title, min_width=max(width, len(title)))
    for title, style in (("batch", "blue"), ("+ realtime", "magenta"), ("= merged", "bold")):
        table.add_column(title, justify="right", style=style, header_style=f"bold {style}", ratio=1, no_wrap=True)
    for value in values:
        table.add_row(*_cells(value))
    return table


def _cells(value: LayeredValue) -> tuple[RenderableType, ...]:
    return (
        Text(value.place),
        Text(value.measure),
        *(Text(_text(number)) for number in (value.batch, value.realtime, value.merged)),
    )


def _text(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return str(value).lower()
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.2f}"
    text = str(value)
    try:
        return f"{Decimal(text):,}"
    except InvalidOperation:
        return time_text(text)
