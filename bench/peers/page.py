"""The section "One run" of docs/peers-figures.md, from the document of a run: `python -m tandem.bench.peers.page FILE`.

Pictures are bar charts of Mermaid, which GitHub draws from the text.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tandem.bench.peers.report import REFERENCE

Document = Mapping[str, Any]


def page(document: Document) -> str:
    """The section as Markdown: machine, versions, and a picture and a table for each part that was measured."""
    return "\n".join(_lines(document))


def _lines(document: Document) -> Iterator[str]:
    yield "Machine: " + ", ".join(f"{name} {value}" for name, value in document["machine"].items()) + "."
    yield ""
    yield "Versions: " + ", ".join(f"{one['name']} {one['version']}" for one in document["contestants"]) + "."
    for title, name, drawn in (
        ("Catch-up with", "catch_up", "events/s"),
        ("Freshness", "freshness", ""),
        ("Recompute of", "recompute", "s, warm"),
        ("Archive of", "archive", "s, warm"),
    ):
        part = document[name]
        if not part["estimates"]:
            continue
        if name == "freshness":
            delays = {one["contestant"]: one for one in part["delays"]}
            median = {one: 1000 * delay["p50"]["value"] for one, delay in delays.items() if delay["p50"]["value"] is not None}
            yield from picture("Freshness at 1,000 events/s: p50, ms", median)
            yield from _table("Freshness at 1,000 events/s; bounds in brackets (90 % confidence):", part["estimates"], delays)
            continue
        events = f"{title} {_events(part)} events"
        bars = {one["contestant"]: one["value"] for one in part["estimates"] if one["figure"] == drawn}
        yield from picture(f"{events}: {drawn}", {own: bars[own] for own in _contestants(part["estimates"]) if own in bars})
        yield from _table(f"{events}:", part["estimates"], {})


def _events(part: Document) -> str:
    return " and ".join(f"{events:,}" for events in dict.fromkeys(run["events"] for run in part["runs"]))


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


def _table(title: str, estimates: Sequence[Document], delays: Mapping[str, Document]) -> Iterator[str]:
    """A row for each contestant, with a column for each figure of the part, and for p50 and p99 where there are delays."""
    figures = list(dict.fromkeys(one["figure"] for one in estimates))
    of = {(one["contestant"], one["figure"]): one for one in estimates}
    shares = ("p50", "p99") if delays else ()
    yield from ("", title, "")
    headings = ["contestant", *(f"{share}, ms" for share in shares), *figures]
    yield from (f"| {' | '.join(cells)} |" for cells in (headings, ["---"] * len(headings)))
    for name in _contestants(estimates):
        cells = [_delay(delays[name][share]) if name in delays else "" for share in shares]
        yield f"| {' | '.join([f'`{name}`', *cells, *(_cell(of.get((name, figure))) for figure in figures)])} |"


def _contestants(estimates: Sequence[Document]) -> list[str]:
    """Tandem comes first."""
    return list(dict.fromkeys([REFERENCE, *(one["contestant"] for one in estimates)]))


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
