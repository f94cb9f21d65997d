"""Rows as text: a table cut to a screenful on a terminal; all rows in aligned columns in a pipe."""

import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

SCREENFUL: Final = 20
WIDEST: Final = 50
"""The widest padding of a column; a longer text pushes the rest of its line to the right."""

_PIPED: Final = 10_000
"""The width of lines in a pipe: a table takes what it needs, and its values are whole."""

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:")
_BROKEN_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:")
_FOLDED: Final = 24
"""A longer text may be folded on a narrow terminal."""

Row = Mapping[str, Any]


def console() -> "Console":
    """Standard output for what is more than text: as wide as the terminal, or in a pipe as its widest line."""
    from rich.console import Console  # noqa: PLC0415 - most output is text, and rich takes time to import

    return Console() if sys.stdout.isatty() else Console(soft_wrap=True, width=_PIPED)


def listing(rows: Sequence[Row], *, total: int | None = None, below: Sequence[str] = ()) -> "RenderableType":
    """Rows that all have the same columns, and lines below them.

    `total` is the number of all rows if a limit has already selected `rows`. Without `total`, a terminal shows a screenful. If
    rows are left out, the text states how many there are.
    """
    terminal = sys.stdout.isatty()
    # With a limit all its rows are shown; without one, a terminal shows only some.
    shown = rows[:SCREENFUL] if terminal and total is None else rows
    of = len(rows) if total is None else total
    lines = [*([f"{len(shown)} of {of} rows"] if len(shown) < of else []), *below]
    if not shown:
        return "\n".join(lines)
    return _table(shown, lines) if terminal else "\n".join([*aligned(shown), *lines])


def below_lines(lines: Sequence[str], rows: "RenderableType") -> "RenderableType":
    """A listing below lines of text."""
    if isinstance(rows, str):
        return "\n".join([*lines, rows])
    from rich.console import Group  # noqa: PLC0415 - only a terminal shows a table, and rich takes time to import
    from rich.text import Text  # noqa: PLC0415 - see above

    return Group(*map(Text, lines), rows)


def cell(value: Any) -> str:
    """A value as one line without control characters: a key may contain some, and a terminal would execute them."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={cell(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return f"[{', '.join(map(cell, value))}]"
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _table(rows: Sequence[Row], below: Sequence[str]) -> "RenderableType":
    from rich.console import Group  # noqa: PLC0415 - only a terminal shows a table, and rich takes time to import
    from rich.table import Table  # noqa: PLC0415 - see above
    from rich.text import Text  # noqa: PLC0415 - see above

    columns = {name: [_breakable(cell(row[name])) for row in rows] for name in rows[0]}
    widths = {name: max(map(_least_width, (name, *texts))) for name, texts in columns.items()}
    if sum(widths.values()) + 2 * (len(widths) - 1) > shutil.get_terminal_size().columns:
        return Group(*_records(rows), *(Text(line, style="dim") for line in below))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        numeric = _numbers(rows, name)
        table.add_column(
            Text(name), justify="right" if numeric else "left", overflow="fold", no_wrap=numeric, min_width=widths[name]
        )
    for texts in zip(*columns.values(), strict=True):
        table.add_row(*map(Text, texts))
    return Group(table, *(Text(line, style="dim") for line in below))


def _records(rows: Sequence[Row]) -> "Iterator[RenderableType]":
    """A block of lines for each row, for rows that are wider than the terminal."""
    from rich.text import Text  # noqa: PLC0415 - only a terminal shows a table, and rich takes time to import

    width = max(map(len, rows[0]))
    for row in rows:
        for name, value in row.items():
            yield Text.assemble((f"{name:<{width}}", "bold"), f"  {cell(value)}")
        yield Text("")


def _least_width(text: str) -> int:
    """The width below which a cell is not broken: that of a time's clock, a number, or the beginning of a long text."""
    return len(text) - 11 if _BROKEN_TIME.match(text) else min(len(text), _FOLDED)


def _breakable(text: str) -> str:
    """A time with a space in place of its T, where a narrow terminal can break it."""
    return f"{text[:10]} {text[11:]}" if _TIME.match(text) else text


def aligned(rows: Sequence[Row]) -> list[str]:
    """A header and a line for each row, in columns."""
    if not rows:
        return []
    names = list(rows[0])
    columns = [[name, *(cell(row[name]) for row in rows)] for name in names]
    for column, name in zip(columns, names, strict=True):
        width, justify = min(WIDEST, max(map(len, column))), str.rjust if _numbers(rows, name) else str.ljust
        column[:] = [justify(text, width) for text in column]
    return ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]


def _numbers(rows: Sequence[Row], name: str) -> bool:
    return all(isinstance(row[name], int | float | None) and not isinstance(row[name], bool) for row in rows)
