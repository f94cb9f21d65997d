"""`tandem try`: the answer of a view if a file were its log, with the definitions in the project's folder."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.text_tables import cell, listing
from tandem.cli.project.dry_run import SHOWN_REJECTS, Trial, trial
from tandem.cli.records.lines import lines
from tandem.views.errors import TandemError, listed
from tandem.views.exactness import Exactness, of_measures
from tandem.views.kernel.kernel import present
from tandem.views.kernel.rows import to_rows


def run(
    call: Call,
    view: Annotated[str, typer.Argument(help="The view's name.")],
    file: Annotated[
        Path,
        typer.Argument(
            help="A file of records, as `tandem feed` reads it. Unpacked if its name ends in .gz; - is standard input."
        ),
    ],
) -> Output:
    """Answer a view from a file's lines, and show the lines that cannot be decoded. Java, Kafka and tables are not needed."""
    views = call.definitions().views
    if view not in views:
        raise TandemError(f"no view {view!r}; views: {listed(view, views)}", code="view-unknown")
    tried = trial(views[view], lines(file), at=datetime.now(UTC))
    rows = to_rows(views[view], present(views[view], tried.partial, tried.watermark))
    exactness = Exactness(columns=of_measures(views[view]))
    rejects = [_reject(reject) for reject in tried.rejects.to_pylist()]
    document = {
        "view": view,
        "rows": rows,
        "lines": tried.lines,
        "records": tried.records,
        "decoded": tried.decoded,
        "events": tried.events,
        "duplicates": tried.duplicates,
        "quarantined": tried.quarantined,
        "others": tried.others,
        "rejected": dict(tried.partial.rejected),
        "exactness": exactness.to_json(),
        "rejects": rejects,
    }
    return Output(document, listing(rows, below=list(_below(tried, rejects))))


def _reject(reject: dict[str, Any]) -> dict[str, Any]:
    return {
        "line": reject["offset"] + 1,
        "reason": reject["reason"],
        "detail": reject["detail"],
        "first_bytes": (reject["first_bytes"] or b"").decode("utf-8", "backslashreplace"),
    }


def _below(tried: Trial, rejects: list[dict[str, Any]]) -> Iterator[str]:
    """The outcome of the lines, for a person."""
    quarantined = sum(tried.quarantined.values())
    copies = f" ({tried.duplicates} of them duplicates)" if tried.duplicates else ""
    others = f", {tried.others} of other sources" if tried.others else ""
    yield f"{tried.lines} lines: {tried.events + tried.duplicates} events{copies}, {quarantined} to quarantine{others}"
    if tried.partial.rejected:
        yield "rejected by this view: " + ", ".join(f"{count} {reason}" for reason, count in tried.partial.rejected.items())
    for reject in rejects:
        yield f"  line {reject['line']}: {reject['reason']}: {cell(reject['detail'])}: {cell(reject['first_bytes'][:80])}"
    if quarantined > SHOWN_REJECTS:
        yield f"  and {quarantined - SHOWN_REJECTS} more"
