"""`tandem why`: the events behind a row of an answer."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tandem.cli.ask.row_output import RowOutput, format_of, output
from tandem.cli.command.call import Call, Output
from tandem.cli.command.options import ReleaseOption, release_of
from tandem.cli.command.text_tables import cell, listing
from tandem.infra import clock
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import distance
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.selection import ALWAYS, BadSelection, measures_of, parse_keys, parse_window
from tandem.serving.why.document import events_table, to_json
from tandem.serving.why.topic_tail import TopicTail
from tandem.serving.why.why import Why, WhyReader
from tandem.views.arrow import arrays
from tandem.views.counted import counted
from tandem.views.errors import TandemError
from tandem.views.kernel.rows import written
from tandem.views.view import bind

if TYPE_CHECKING:
    from rich.console import RenderableType

_WIDTH: Final = 80
_SHOWN: Final = 5
"""Duplicates, rejects and near misses that a person sees; --json lists more."""


def run(
    call: Call,
    view: Annotated[str, typer.Argument(help="The view's name.")],
    *,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="The value of a key; NAME alone means NULL. Once for each key of the view."),
    ] = None,
    window: Annotated[
        str | None, typer.Option(metavar="TIME", help="The start of the row's window (ISO 8601, in the view's zone).")
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Show only this measure, and the events that it reads; may be repeated."),
    ] = None,
    list_: Annotated[
        int | None, typer.Option("--list", min=0, metavar="N", help="List the first N events. Default: the first and last three.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write all events to this file: .csv, .ndjson, .parquet or .arrow."),
    ] = None,
    publication: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Explain the row of this publication's batch view, if it is retained.")
    ] = None,
    release: ReleaseOption = None,
) -> Output:
    """Show the events behind one row of a view, and compute the row again from them.

    The command prints:

    * the events that count, with their positions and the values that measures read, and what each layer contributed;
    * dropped duplicates with the copy that counts, and events that the view rejected;
    * quarantined records that contain the key's values, and gaps;
    * since when the row is final, and what may still change it.

    It reads only row groups that can have such events, and the records that are not archived yet.

    The plain oracle computes each measure from these events. Exit code 1 if the row differs from that.
    """
    if release is not None and publication is not None:
        raise BadSelection("--release cannot be combined with --publication")
    how = format_of(call, None, out)
    settings = call.settings()
    tables = Tables.of(settings)
    reader = Reader(tables, publication, asked=release_of(settings, release))
    of = reader.view(view)
    bounded = bind(of).placement.timing.bounded
    between = parse_window(of, window) if window is not None or not bounded else ALWAYS
    measures = measures_of(of, measure or ())
    why = WhyReader(reader, TopicTail(settings, tables)).why(view, parse_keys(of, key or []), between)
    document = to_json(why, now=clock.now(), listed=list_, measures=measures)
    code = 0 if why.agrees else 1
    if out is not None:
        return Output(
            output(call, _events(why, measures), how, out).document, f"wrote the events of {_title(why)} to {out}", code
        )
    return Output(document, _renderable(why, document), code)


def _events(why: Why, measures: Sequence[str]) -> RowOutput:
    """All events of the row, or of these measures. Raises TandemError for a view over several sources, as their fields differ."""
    if len(why.sources) > 1:
        names = ", ".join(evidence.part.source.name for evidence, _ in why.sources)
        raise TandemError(
            f"--out cannot write events of several sources to one file: {names}; use --json with --list", code="usage-invalid"
        )
    table = events_table(why, why.sources[0][0], measures)
    columns = [written(arrays.whole(table[field.name]), field) for field in table.schema]
    rows = [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
    cells = [{name: cell(value) if isinstance(value, dict | list) else value for name, value in row.items()} for row in rows]
    return RowOutput(table, rows, cells, why.provenance.to_json(now=clock.now()), rows, str)


def _title(why: Why) -> str:
    key = " ".join(f"{name}={cell(value)}" for name, value in why.key.items())
    return " ".join(part for part in (why.view.name, key) if part)


def _renderable(why: Why, document: Mapping[str, Any]) -> "RenderableType":
    parts: list[Any] = [_heading(why, document)]
    if document["row"] is not None or not why.agrees:
        parts.append(listing(document["measures"]))
    parts.append(_wrap(_summary(why, document)))
    for name, source in document["sources"].items():
        title = f"{counted(source['events'], 'event')} of {name} count"
        rows = [_event_row(event) for event in source["listed"]]
        left_out = source["events"] - len(rows)
        note = [f"{left_out} more; --list N and --out FILE show them"] if left_out else []
        parts += [title, listing(rows, total=len(rows), below=note)] if rows else [title]
        parts.append(_wrap(_source_lines(source)))
    parts.append(_wrap(_last_lines(why, document)))
    return _together([part for part in parts if part != ""])


def _heading(why: Why, document: Mapping[str, Any]) -> str:
    window = document["window"]
    bounds = "" if window["start"] is None else f", {window['start']} to {window['end']}"
    state = f", {window['state']}" if window["state"] else ": nothing was counted"
    return f"{_title(why)}{bounds}{state}"


def _event_row(event: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "position": event["at"],
        "time": event["time"],
        "layer": event["layer"] + (" (late)" if event["after_final"] else ""),
        **event["fields"],
    }


def _summary(why: Why, document: Mapping[str, Any]) -> Iterator[str]:
    provenance = why.provenance
    above = counted(distance(provenance.cut, provenance.realtime), "offset")
    places = {"batch": f"{provenance.whose}, below its cut", "speed": f"the {above} from the cut on"}
    for layer, side in document["layers"].items():
        row = side["row"]
        names = [check["measure"] for check in document["measures"]]
        values = "" if row is None else ": " + ", ".join(f"{name} {cell(row.get(name))}" for name in names)
        yield f"{layer}: {counted(side['events'], 'event')} in {places[layer]}{values}"
    if why.agrees:
        yield "computed again from these events by the plain oracle: the same" + _exceptions(document)
    else:
        wrong = ", ".join(check["measure"] for check in document["measures"] if check["verdict"] == "differs")
        yield f"computed again from these events by the plain oracle: DIFFERS in {wrong or 'other measures'}"
        yield from (f"  {line}" for line in provenance.exactness.lines())


def _exceptions(document: Mapping[str, Any]) -> str:
    names = [check["measure"] for check in document["measures"] if check["verdict"] == "not computed again"]
    return f", but for {', '.join(names)}, which the project computes itself" if names else ""


def _source_lines(source: Mapping[str, Any]) -> Iterator[str]:
    if source["after_final"]:
        yield f"{counted(source['after_final'], 'event')} arrived after the window was final"
    yield from _some(source["duplicates"], "duplicate", "dropped", lambda each: f"{each['at']}: {each['counts']} counts")
    yield from _some(source["rejected"], "event", "rejected by the view", lambda each: f"{each['at']}: {each['reason']}")
    yield from _some(source["filtered"], "event", "of the key left out by the view's filter", str)
    if source["before_start"]:
        yield f"{counted(source['before_start'], 'event')} before the source's start"
    near = source["near_misses"]
    if near["rejects"]:
        mention = "mentions" if near["number"] == 1 else "mention"
        yield f"{counted(near['rejects'], 'record')} in quarantine since the window began; {near['number']} {mention} the key"
        yield from (f"  {each['at']}: {each['reason']}: {each['detail']}" for each in near["first"][:_SHOWN])
    read = source["read"]
    topic = f", {counted(read['topic_records'], 'record')} of the topic" if read["topic_records"] else ""
    share = f"{read['bytes']} of {read['of_bytes']} bytes"
    yield f"read {counted(read['row_groups'], 'row group')} of the events table, {share}{topic}"


def _some(some: Mapping[str, Any], noun: str, what: str, line: Callable[[Any], str]) -> Iterator[str]:
    if some["number"]:
        yield f"{counted(some['number'], noun)} {what}"
        yield from (f"  {line(each)}" for each in some["first"][:_SHOWN])
        if some["number"] > _SHOWN:
            yield f"  and {some['number'] - _SHOWN} more; --json lists them"


def _last_lines(why: Why, document: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"gap {gap.name}: {gap.ranges.length} offsets are lost ({gap.reason})" for gap in why.provenance.gaps)
    if why.provenance.kept_from is not None:
        yield f"windows before {document['provenance']['kept_from']} have left the view"
    if why.erased:
        yield f"{counted(why.erased, 'record')} of the log erased"
    final = document["final_since"]
    if final is not None:
        where = "a commit" if final["publication"] is None else f"publication {final['publication']}"
        yield f"final since {where} of {final['at']}"
    yield f"may still change by: {'; '.join(why.may_change)}"


def _wrap(lines: Iterator[str]) -> str:
    """Lines for a terminal, which has at least 80 columns; in a pipe each is whole."""
    if not sys.stdout.isatty():
        return "\n".join(lines)
    return "\n".join(part for line in lines for part in wrap(line, _WIDTH, subsequent_indent="  ", drop_whitespace=True))


def _together(parts: Sequence[Any]) -> "RenderableType":
    if all(isinstance(part, str) for part in parts):
        return "\n".join(parts)
    from rich.console import Group  # noqa: PLC0415 - only a terminal shows a table, and rich takes time to import
    from rich.text import Text  # noqa: PLC0415 - see above

    return Group(*(Text(part) if isinstance(part, str) else part for part in parts))
