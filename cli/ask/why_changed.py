"""`tandem why-changed`: what made rows change between two moments."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Final

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.text_tables import aligned, cell
from tandem.ledger.delta.addresses import Tables
from tandem.serving.read.selection import ALWAYS, Selection, parse_keys, parse_window, select
from tandem.serving.why.changed import CAUSES, LISTED, RowChanges, WhyChanged
from tandem.serving.why.document import changes_to_json
from tandem.serving.why.moments import Moments
from tandem.serving.why.topic_tail import TopicTail
from tandem.views.counted import counted
from tandem.views.instant import utc_text
from tandem.views.view import View

_SHOWN: Final = 20
"""The rows that a person sees; --json has all."""


def run(
    call: Call,
    view: Annotated[str, typer.Argument(help="The view's name.")],
    *,
    between: Annotated[
        tuple[str, str],
        typer.Option(
            metavar="A B", help="Two moments: now, a publication's number, a time, a receipt's file, or a position as JSON."
        ),
    ],
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Rows with this value of a key; NAME alone means NULL. Once per key."),
    ] = None,
    window: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only the window with this start (ISO 8601, in the view's zone).")
    ] = None,
) -> Output:
    """Show what made the rows of a view change between two moments.

    For counts, and for totals of integers and decimals, the difference of each row is split by cause. The parts add up to the
    difference exactly:

    * `new events`, and `late events`, which arrived after a publication had labelled the window final;
    * `duplicates`: copies that were counted, and those that the next recompute removes;
    * `definition`: the release has changed what the view means; the sentences below the rows say how;
    * `tables`: other versions of the rows of tables that the view looks up in;
    * `accepted gaps` and `erasure`: events that the log no longer has.

    For other measures the events that came since are listed.
    """
    settings = call.settings()
    tables = Tables.of(settings)

    def chosen(of: View) -> Selection:
        return select(of, parse_keys(of, key or []), ALWAYS if window is None else parse_window(of, window))

    first, second = map(Moments(tables, view, chosen).find, between)
    changed = RowChanges(tables, TopicTail(settings, tables)).between(first, second, chosen(second.view))
    return Output(changes_to_json(changed), "\n".join(_lines(changed)))


def _lines(changed: WhyChanged) -> Iterator[str]:
    view = changed.second.view
    title = f"{view.name} from {changed.first.label} to {changed.second.label}"
    yield f"{title}: {counted(len(changed.rows), 'row')} changed"
    documents = changes_to_json(replace(changed, rows=changed.rows[:_SHOWN]))["rows"]
    lines = [(document["row"], line) for document in documents for line in document["measures"]]
    used = [cause for cause in CAUSES if any(cause in (line["parts"] or {}) for _, line in lines)]
    yield from aligned(
        [
            {
                **row,
                **{name: line[name] for name in ("measure", "before", "after")},
                **{cause: "" if line["parts"] is None else cell(line["parts"].get(cause, 0)) for cause in used},
            }
            for row, line in lines
        ]
    )
    for document in documents:
        events = document["events"]
        if events["number"]:
            more = ", ..." if events["number"] > LISTED else ""
            late = f", {events['late']} of them late" if events["late"] else ""
            places = ", ".join(events["first"])
            group = " ".join(map(cell, document["row"].values()))
            yield f"{group}: {counted(events['number'], 'event')} since{late}: {places}{more}"
    if len(changed.rows) > _SHOWN:
        yield f"{len(changed.rows) - _SHOWN} more rows; --json has all"
    if changed.erased:
        yield f"{counted(changed.erased, 'record')} of {changed.first.label} erased; what they had made is not known any more"
    if changed.second.kept_from is not None:
        yield f"windows before {utc_text(changed.second.kept_from)} have left the view"
    yield from (f"definition: {words}" for words in changed.definition)
