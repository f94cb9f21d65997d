"""`tandem audit`: how served answers compared with the next batch's results, run after run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.text_tables import listing
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.audits import Audit, Audits
from tandem.serving.read.selection import parse_time
from tandem.serving.status.releases import document_of, expectation_lines
from tandem.views.counted import counted

_FIGURES: Final = ("rows", "unequal", "differ", "share", "largest", "mean", "smape", "tolerance")


def run(
    call: Call,
    view: Annotated[str | None, typer.Argument(help="Only this view.")] = None,
    *,
    measure: Annotated[str | None, typer.Option(metavar="NAME", help="Only this measure.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only runs at or after this time (ISO 8601, UTC).")] = None,
) -> Output:
    """List how served answers differed from the results of each recompute, newest first.

    For every view and measure the list has the number of answers that differ beyond the tolerance, the mean and the largest
    absolute error, the symmetric mean absolute percentage error (from 0 to 2) and the cause. Where a comparison was not
    possible, it has the reason. For every condition that a view expects, it has the rows that do not meet it.
    """
    start = parse_time(since) if since else None
    found = Audits(Tables.of(call.settings())).history(view=view, measure=measure)
    chosen = [audit for audit in reversed(found) if start is None or audit.at >= start]
    documents = [document_of(audit) for audit in chosen]
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
    yield from expectation_lines(found)


def _row(document: Mapping[str, Any]) -> dict[str, Any]:
    """An audit narrow enough for a screen."""
    figures, expectation = document["figures"] or dict.fromkeys(_FIGURES), document["expectation"]
    if expectation is not None:
        figures |= {"rows": expectation["rows"], "differ": expectation["unmet"]}
    return {
        "at": document["at"][:19] + "Z",
        "view": document["view"],
        "measure": document["measure"] or "",
        **{name: figures[name] for name in ("rows", "differ", "largest", "mean", "smape")},
        "cause": _cause(document),
    }


def _cause(document: Mapping[str, Any]) -> str:
    if (expectation := document["expectation"]) is not None:
        return f"{expectation['severity']}: {expectation['condition']}"
    return document["cause"] or f"not comparable: {document['obstacle']}"
