"""The section "One run" of docs/peers.md, from the document of a run: `python -m tandem.bench.peers.page FILE`.

Pictures are bar charts of Mermaid, which GitHub draws from the text.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tandem.bench.peers.report import REFERENCE

Document = Mapping[str, Any]


@dataclass(frozen=True)
class PageColumn:
    """A column of a table: its heading, and the title of the figure that it shows."""

    heading: str
    figure: str


CATCH_UP: Final = (
    PageColumn("events/s", "events/s"),
    PageColumn("s, with the start", "s of both"),
    PageColumn("CPU s", "CPU s"),
    PageColumn("broker's CPU s", "broker's CPU s"),
    PageColumn("peak PSS, MB", "peak PSS, MB"),
)
FRESH: Final = (
    PageColumn("CPU, cores", "contestant's CPU, cores"),
    PageColumn("while nobody asks", "its CPU while nobody asks"),
    PageColumn("reader's CPU", "reader's CPU, cores"),
    PageColumn("broker's CPU", "broker's CPU, cores"),
    PageColumn("peak PSS, MB", "peak PSS, MB"),
    PageColumn("s to the first answer", "s to the first answer"),
)
RECOMPUTE: Final = (
    PageColumn("events/s", "events/s"),
    PageColumn("s, warm", "s, warm"),
    PageColumn("s, the first time", "s, the first time"),
    PageColumn("CPU s, warm", "CPU s, warm"),
    PageColumn("peak PSS, MB", "peak PSS, MB"),
)
ARCHIVE: Final = tuple(column for column in RECOMPUTE if column.heading != "s, the first time")


def page(document: Document) -> str:
    """The section as Markdown: machine, versions, and a picture and a table for each part that was measured."""
    return "\n".join(_lines(document))


def _lines(document: Document) -> Iterator[str]:
    yield "Machine: " + ", ".join(f"{name} {value}" for name, value in document["machine"].items()) + "."
    yield ""
    yield "Versions: " + ", ".join(f"{one['name']} {one['version']}" for one in document["contestants"]) + "."
    part = document["catch_up"]
    if part["estimates"]:
        yield from _part(f"Catch-up with {_events(part)} events", part["estimates"], CATCH_UP, "events/s")
    part = document["freshness"]
    if part["delays"]:
        yield from _freshness(part)
    for title, name, columns in (("Recompute", "recompute", RECOMPUTE), ("Archive", "archive", ARCHIVE)):
        part = document[name]
        if part["estimates"]:
            yield from _part(f"{title} of {_events(part)} events", part["estimates"], columns, "s, warm")


def _events(part: Document) -> str:
    return " and ".join(f"{events:,}" for events in dict.fromkeys(run["events"] for run in part["runs"]))


def _part(title: str, estimates: Sequence[Document], columns: Sequence[PageColumn], drawn: str) -> Iterator[str]:
    """A part whose figures are all estimates."""
    found = _by_contestant(estimates)
    yield from picture(f"{title}: {drawn}", {name: own[drawn]["value"] for name, own in found.items() if drawn in own})
    rows = [[f"`{name}`", *(_cell(own.get(column.figure)) for column in columns)] for name, own in found.items()]
    yield from _table(f"{title}:", ["contestant", *(column.heading for column in columns)], rows)


def _freshness(part: Document) -> Iterator[str]:
    """Freshness, whose percentiles are over markers, and what the contestants needed meanwhile."""
    found = _by_contestant(part["estimates"])
    delays = {one["contestant"]: one for one in part["delays"]}
    median = {name: 1000 * one["p50"]["value"] for name, one in delays.items() if one["p50"]["value"] is not None}
    yield from picture("Freshness at 1,000 events/s: p50, ms", median)
    rows = [
        [
            f"`{name}`",
            *(_delay(delays[name][share]) if name in delays else "" for share in ("p50", "p99")),
            *(_cell(own.get(column.figure)) for column in FRESH),
        ]
        for name, own in found.items()
    ]
    headings = ["contestant", "p50, ms", "p99, ms", *(column.heading for column in FRESH)]
    yield from _table("Freshness at 1,000 events/s; bounds in brackets (90 % confidence):", headings, rows)


def picture(title: str, values: Mapping[str, float]) -> Iterator[str]:
    """A bar for each contestant."""
    names = ", ".join(f'"{name}"' for name in values)
    bars = ", ".join(f"{value:.3g}" if value < 100 else f"{value:.0f}" for value in values.values())
    yield from (
        "",
        "```mermaid",
        "xychart-beta horizontal",
        f'    title "{title}"',
        f"    x-axis [{names}]",
        f"    bar [{bars}]",
        "```",
    )


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from ("", title, "")
    for cells in (headings, ["---"] * len(headings), *rows):
        yield f"| {' | '.join(cells)} |"


def _by_contestant(estimates: Sequence[Document]) -> dict[str, dict[str, Document]]:
    """The estimates of each contestant by title; Tandem's come first."""
    names = dict.fromkeys([REFERENCE, *(one["contestant"] for one in estimates)])
    return {name: {one["figure"]: one for one in estimates if one["contestant"] == name} for name in names}


def _cell(one: Document | None) -> str:
    """A figure with its ratio."""
    if one is None:
        return ""
    ratio = "" if one["ratio"] is None else f" ({one['ratio']['value']:.2f}x)"
    return f"{_number(one['value'])}{ratio}"


def _delay(one: Document) -> str:
    value, low, high = ("unknown" if one[name] is None else f"{1000 * one[name]:,.0f}" for name in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def _number(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


if __name__ == "__main__":
    sys.stdout.write(f"{page(json.loads(Path(sys.argv[1]).read_text()))}\n")
