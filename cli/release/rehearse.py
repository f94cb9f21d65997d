"""`tandem rehearse`: what the project's definitions would have answered in the last days, beside the live release."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial, reduce
from heapq import nsmallest
from json import dumps
from typing import Annotated, Any, Final

import typer

from tandem.batch.fold.two_versions import Side
from tandem.batch.recompute.estimate import size
from tandem.batch.rehearse.fold_checkpoints import Cost
from tandem.batch.rehearse.rehearse import Rehearsal, RehearsedView, rehearse
from tandem.batch.release.release_plan import Terms
from tandem.cli.command.batch_run import batch_run
from tandem.cli.command.call import Call, Output
from tandem.cli.command.options import AcceptGap, AcceptShorterHistory
from tandem.cli.command.text_tables import aligned, cell
from tandem.cli.release.diff_figures import difference_cells, difference_document, figures
from tandem.cli.release.markdown import markdown_table, plain
from tandem.cli.release.rehearsed_alerts import RehearsedEdge, edges_of
from tandem.cli.release.rehearsed_rows import RehearsedRows, compare_rows
from tandem.cli.release.start_option import From, start_of
from tandem.serving.read.selection import parse_span
from tandem.views.counted import counted
from tandem.views.errors import TandemError
from tandem.views.instant import time_of, utc_text
from tandem.views.verify.release_diff import Diff, add, to_json

ROWS: Final = 3
_SIDES: Final[Mapping[Side, str]] = {"old": "live", "new": "release"}


def run(
    call: Call,
    *,
    since: Annotated[
        str, typer.Option(metavar="SPAN", help="How far back, from the newest event below the live cut: 90m, 12h or 7d.")
    ] = "7d",
    every: Annotated[str, typer.Option(metavar="SPAN", help="The time between checkpoints, at multiples of it.")] = "6h",
    view: Annotated[
        list[str] | None,
        typer.Option(metavar="VIEW", help="Rehearse this view; may be repeated. Default: those that differ or have an alert."),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Print the N worst rows of each view and checkpoint.")] = ROWS,
    from_: From = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for the comment of a pull request.")] = False,
    accept_gap: AcceptGap = None,
    accept_shorter_history: AcceptShorterHistory = False,
) -> Output:
    """Rehearse the definitions of the project's folder over the log in the order in which it arrived, beside the live release.

    At each checkpoint both count the events that the log had received by then, by their append times, so that a late event is as
    late as it was. For each checkpoint the command prints:

    * how many rows of each view are the same, changed, only live and only in the release, and the worst of them
    * the alerts that would have been raised, cleared and corrected, by the live release, by this one or by both

    At the end it prints the numbers of alerts, and the cost of each side: events read, seconds of tasks, bytes of states.

    The release is what `tandem apply` would store, and is refused for the same reasons. Nothing is published or kept.
    Recompute and maintain wait meanwhile; answers and the speed layer continue.
    """
    if markdown and call.json:
        raise TandemError("--markdown cannot be combined with --json", code="usage-invalid")
    lengths = {"since": parse_span(since), "every": parse_span(every)}
    terms = Terms(tuple(accept_gap or ()), accept_shorter_history, start=start_of(from_))
    wanted = call.publishable()
    with batch_run(call, "rehearse") as batch:
        rehearsal = rehearse(batch, wanted, terms, partial(compare_rows, limit), views=view or (), **lengths)
    return output(rehearsal, limit, markdown=markdown)


def output(rehearsal: Rehearsal[RehearsedRows], limit: int = ROWS, *, markdown: bool = False) -> Output:
    """The rehearsal as JSON, and as text or Markdown."""
    document = _document(rehearsal, limit)
    return Output(document, "\n".join(_markdown(document) if markdown else _lines(document)))


def _document(rehearsal: Rehearsal[RehearsedRows], limit: int) -> dict[str, Any]:
    change, edges = rehearsal.change, edges_of(rehearsal)
    alerts = [alert for project in (change.old, change.new) for alert in project.alerts.values()]
    names = dict.fromkeys(alert.name for alert in alerts if alert.view.name in rehearsal.views)
    return {
        "publication": change.live.number,
        "live_release": change.before.number,
        "release": change.after.number,
        "checkpoints": [
            {
                "at": utc_text(time_of(at)),
                "events": {_SIDES[side]: events for side, events in _events(rehearsal, number).items()},
                "views": {name: _view(each, number, limit) for name, each in rehearsal.views.items()},
                "alerts": [*_edges([each for each in edges if each.checkpoint == number])],
            }
            for number, at in enumerate(rehearsal.checkpoints)
        ],
        "alerts": {
            name: {
                _SIDES[side]: _kinds([each for each in edges if (each.side, each.edge.alert) == (side, name)]) for side in _SIDES
            }
            for name in names
        },
        "cost": {
            name: {_SIDES[side]: _cost(cost) for side, cost in each.costs.items()} for name, each in rehearsal.views.items()
        },
    }


def _events(rehearsal: Rehearsal[RehearsedRows], number: int) -> dict[Side, int]:
    """The number of events of all sources until a checkpoint, by side."""
    events = Counter[Side]()
    for (side, _), at in rehearsal.sources.items():
        events[side] += at[number].events
    return dict(events)


def _view(view: RehearsedView[RehearsedRows], number: int, limit: int) -> dict[str, Any]:
    some = [each for each in view.results if each.checkpoint == number]
    totals = to_json(reduce(add, (each.diff for each in some), Diff()))
    worst = nsmallest(limit, (row for each in some for row in each.worst), key=lambda row: row.order)
    return {
        "status": view.status,
        **{name: totals[name] for name in ("matched", "changed", "only_old", "only_new", "comparable")},
        "same": totals["matched"] - totals["changed"],
        "rows": [difference_document(row) for row in worst],
    }


def _edges(edges: list[RehearsedEdge]) -> Iterator[dict[str, Any]]:
    """The edges of a checkpoint. An edge that both sides have is listed once; `release_text` is the release's, if it differs."""
    by_place: dict[str, dict[str, Any]] = {}
    for each in edges:
        edge = each.edge
        document = {
            "alert": edge.alert,
            "view": edge.view,
            "kind": edge.kind,
            "because": edge.because,
            "row": dict(edge.place),
        }
        listed = by_place.setdefault(dumps(document, sort_keys=True), {**document, "text": edge.text, "sides": []})
        listed["sides"].append(_SIDES[each.side])
        if edge.text != listed["text"]:
            listed["release_text"] = edge.text
    yield from by_place.values()


def _kinds(edges: list[RehearsedEdge]) -> dict[str, int]:
    kinds = Counter(each.edge.kind for each in edges)
    return {kind: kinds[kind] for kind in ("raised", "cleared", "corrected")}


def _cost(cost: Cost) -> dict[str, Any]:
    return {"events": cost.events, "seconds": round(cost.seconds, 3), "bytes": cost.bytes}


def _headline(document: Mapping[str, Any]) -> str:
    times = [each["at"] for each in document["checkpoints"]]
    return (
        f"release {document['release']} rehearsed beside the live release {document['live_release']} (publication "
        f"{document['publication']}): {counted(len(times), 'checkpoint')} from {times[0]} to {times[-1]}"
    )


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield _headline(document)
    before: Mapping[str, Any] = {}
    for each in document["checkpoints"]:
        if not each["alerts"] and all(each[part] == before.get(part) for part in ("events", "views")):
            yield f"{each['at']}: as before"
            continue
        before = each
        yield f"{each['at']}: {counted(each['events'].get('live', 0), 'event')}"
        for name, view in each["views"].items():
            yield f"  view {name}: {figures(view, document['release'])}"
            yield from (f"    {line}" for line in aligned([difference_cells(row) for row in view["rows"]]))
        yield from (f"  {_edge_line(edge, document['release'])}" for edge in each["alerts"])
    yield from _totals(document)


def _totals(document: Mapping[str, Any]) -> Iterator[str]:
    """The lines below the checkpoints: alerts and costs."""
    release = f"release {document['release']}"
    for name, sides in document["alerts"].items():
        texts = [
            f"{_side(side, release)}: {', '.join(f'{n} {kind}' for kind, n in kinds.items())}" for side, kinds in sides.items()
        ]
        yield f"alert {name}: {'; '.join(texts)}"
    for name, sides in document["cost"].items():
        texts = [
            f"{_side(side, release)}: {counted(cost['events'], 'event')}, {cost['seconds']:.1f} s, {size(cost['bytes'])}"
            for side, cost in sides.items()
        ]
        yield f"cost of {name}: {'; '.join(texts)}"
    if not document["cost"]:
        yield "no view differs or has an alert; name one with --view"


def _side(side: str, release: str) -> str:
    return "live" if side == "live" else release


def _edge_line(edge: Mapping[str, Any], release: int) -> str:
    who = "both" if len(edge["sides"]) > 1 else f"only {_side(edge['sides'][0], f'release {release}')}"
    place = ", ".join(f"{name}={cell(value)}" for name, value in edge["row"].items())
    text = " -> ".join(edge[name] for name in ("text", "release_text") if name in edge)
    return f"alert {edge['alert']} {edge['kind']} because of {edge['because']}, {who}: {text} ({place})"


def _markdown(document: Mapping[str, Any]) -> Iterator[str]:
    """The same for the comment of a pull request."""
    yield f"### {_headline(document)}"
    yield ""
    release = document["release"]
    yield from markdown_table(
        [
            {"checkpoint": each["at"], "view": name, "the same": view["same"], "changed": view["changed"],
             "only live": view["only_old"], f"only release {release}": view["only_new"]}
            for each in document["checkpoints"] for name, view in each["views"].items()
        ]
    )  # fmt: skip
    for each in document["checkpoints"]:
        for name, view in each["views"].items():
            if view["rows"]:
                yield from ("", f"**{plain(name)}** at {each['at']}", "")
                yield from markdown_table([difference_cells(row) for row in view["rows"]])
        if each["alerts"]:
            yield from ("", f"**alerts** at {each['at']}", "")
            yield from (f"* {plain(_edge_line(edge, release))}" for edge in each["alerts"])
    yield from ("", "**in all**", "")
    yield from (f"* {plain(line)}" for line in _totals(document))
