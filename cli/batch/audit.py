"""`tandem audit`: how served answers compared with the next batch's results, run after run."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Annotated, Any, Final

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.text_tables import listing
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.audits import Audit, Audits
from tandem.serving.read.selection import BadSelection, parse_time
from tandem.serving.status.audits import document_of
from tandem.views.counted import counted

_BARS: Final = "▁▂▃▄▅▆▇█"
_RUNS: Final = 60
_FLAT: Final = ("at", "version", "served", "release", "view", "measure", "compared", "cause")
_FIGURES: Final = ("rows", "unequal", "differ", "share", "largest", "mean", "smape", "tolerance")


def run(
    call: Call,
    view: Annotated[str | None, typer.Argument(help="Only this view.")] = None,
    *,
    measure: Annotated[str | None, typer.Option(metavar="NAME", help="Only this measure.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only runs at or after this time (ISO 8601, UTC).")] = None,
    plot: Annotated[bool, typer.Option("--plot", help="Plot the error over time, one line per view and measure.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the history as CSV.")] = False,
    ndjson: Annotated[
        bool, typer.Option("--ndjson", help="Print the history as one JSON object per line, with examples.")
    ] = False,
) -> Output:
    """List how served answers differed from the results of each recompute, newest first.

    For every view and measure the list has the number of answers that differ beyond the tolerance, the mean and the largest
    absolute error, the symmetric mean absolute percentage error (from 0 to 2) and the cause. Where a comparison was not
    possible, it has the reason.
    """
    if plot + as_csv + ndjson > 1:
        raise BadSelection("--plot, --csv and --ndjson cannot be combined")
    start = parse_time(since) if since else None
    found = Audits(Tables.of(call.settings())).history(view=view, measure=measure)
    chosen = [audit for audit in reversed(found) if start is None or audit.at >= start]
    documents = [document_of(audit) for audit in chosen]
    if as_csv:
        shown: Any = _csv(documents)
    elif ndjson:
        shown = "\n".join(map(json.dumps, documents))
    elif plot:
        shown = "\n".join(_plot(chosen)) or "no comparisons yet"
    else:
        below = [] if chosen else ["no audits yet; each `tandem recompute` adds some"]
        shown = listing([_row(document) for document in documents], below=below)
    return Output({"audits": documents}, shown)


def summary(found: Sequence[Audit]) -> Iterator[str]:
    """The lines of a recompute about its audits."""
    for why, what in (
        ("bridge", "the speed layer had not processed any of it"),
        ("damage", "files of the served answers are missing or torn"),
        ("gap", "the log has a gap"),
    ):
        if names := list(dict.fromkeys(audit.view for audit in found if audit.obstacle == why)):
            yield f"not compared with the served answers, because {what}: {', '.join(names)}"
    for audit in found:
        if audit.figures is not None and audit.figures.differ:
            one = audit.figures
            answers = counted(one.rows, "answer")
            yield f"{audit.view}.{audit.measure}: {one.differ} of {answers} differed from the served ones: {one.cause}"


def _row(document: Mapping[str, Any]) -> dict[str, Any]:
    """An audit narrow enough for a screen."""
    figures = document["figures"] or dict.fromkeys(_FIGURES)
    return {
        "at": document["at"][:19] + "Z",
        "view": document["view"],
        "measure": document["measure"] or "",
        **{name: figures[name] for name in ("rows", "differ", "largest", "mean", "smape")},
        "cause": document["cause"] or f"not comparable: {document['obstacle']}",
    }


def _csv(documents: Sequence[Mapping[str, Any]]) -> str:
    text = StringIO()
    writer = csv.DictWriter(text, [*_FLAT, *_FIGURES], lineterminator="\n")
    writer.writeheader()
    for document in documents:
        flat = {**document, "compared": document["obstacle"] or "yes"}
        writer.writerow({**{name: flat[name] for name in _FLAT}, **(document["figures"] or {})})
    return text.getvalue().rstrip("\n")


def _plot(newest_first: Sequence[Audit]) -> Iterator[str]:
    """A line of bars for each view and measure: one for each of the last runs, scaled by the line's largest error."""
    lines: dict[tuple[str, str], list[float]] = {}
    for audit in reversed(newest_first):
        if audit.figures is not None:
            lines.setdefault((audit.view, audit.measure), []).append(audit.figures.smape)
    width = max((len(f"{view}.{measure}") for view, measure in lines), default=0)
    for (view, measure), errors in sorted(lines.items()):
        last = errors[-_RUNS:]
        most = max(last)
        bars = "".join(_BARS[round(error / most * (len(_BARS) - 1)) if most else 0] for error in last)
        yield (
            f"{view}.{measure}".ljust(width)
            + f"  {bars}  sMAPE now {last[-1]:.3%}, at most {most:.3%}, {counted(len(last), 'run')}"
        )
