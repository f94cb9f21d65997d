"""`tandem query`: one view's answer, merged from the batch layer and the speed layer."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow.compute as pc
import typer

from tandem.cli.ask.receipt_file import write_receipt
from tandem.cli.ask.row_choice import RowChoice, parse_columns, parse_order
from tandem.cli.ask.row_output import FormatOption, OutOption, RowOutput, format_of, output
from tandem.cli.command.call import UNHEALTHY, Call, Output
from tandem.cli.command.drift import working_tree_drift
from tandem.cli.command.options import ReleaseOption, release_of
from tandem.cli.command.text_tables import listing
from tandem.cli.command.uncounted import WITHIN_S, LogAsked, Within, ends_now, wait_until_counted, warning
from tandem.infra import clock
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.history import history_lines
from tandem.ledger.log.positions import distance
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Absent, Value, given
from tandem.serving.read.provenance import Layer, age, written
from tandem.serving.read.selection import BadSelection, last, parse_between, parse_keys, parse_span, parse_time, select
from tandem.serving.read.snapshot_follower import live_at
from tandem.serving.read.window_zone import clocks, rows_in, rows_with_local, table_in, zone_name
from tandem.serving.why.receipt import receipt_of
from tandem.views.composite.current_rows import RowsView
from tandem.views.composite.rollup import root
from tandem.views.composite.table import Table
from tandem.views.composite.together import several
from tandem.views.counted import counted
from tandem.views.exactness import MARK
from tandem.views.instant import utc_text
from tandem.views.start import start_sentence

if TYPE_CHECKING:
    from rich.console import RenderableType


def run(
    call: Call,
    view: Annotated[str, typer.Argument(help="The view's name.")],
    *,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Rows with this value of a key; NAME alone means NULL. Once per key."),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Windows that start at or after this time (ISO 8601, in the view's zone)."),
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="TIME", help="Windows that start before this time.")] = None,
    one: Annotated[
        bool,
        typer.Option(
            "--one", help="Merge everything from --from to --to into one window; both must be bounds of the view's slices."
        ),
    ] = False,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help="Of a table: the versions that were valid at this event time (ISO 8601, UTC), not the latest.",
        ),
    ] = None,
    last_: Annotated[
        str | None,
        typer.Option(
            "--last", metavar="SPAN", help="Merge the last 37m, 2h or 7d into one window, which ends with the current slice."
        ),
    ] = None,
    layer: Annotated[
        Layer | None,
        typer.Option(
            help="batch: events below the cut. speed: events from the cut on. merged: both. Default merged, with "
            "--publication batch."
        ),
    ] = None,
    publication: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Answer from the batch views of this publication, if it is retained."),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of", metavar="TIME", help="Answer from the batch views of the publication that was live then (ISO 8601, UTC)."
        ),
    ] = None,
    release: ReleaseOption = None,
    order_by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN [desc],...", help="Order rows by these columns, NULL last. Default: window start, then keys."
        ),
    ] = None,
    columns: Annotated[list[str] | None, typer.Option(metavar="NAME,...", help="Print only these columns.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, metavar="N", help="Print only the first N rows.")] = None,
    format_: FormatOption = None,
    out: OutOption = None,
    receipt: Annotated[
        Path | None,
        typer.Option("--receipt", metavar="FILE", help="Also write a receipt of the answer to this file, for `tandem receipt`."),
    ] = None,
    utc: Annotated[
        bool, typer.Option("--utc", help="Read times without a zone, and print windows, in UTC instead of the view's zone.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait until all records now in the log are counted; exit code 3 if that takes too long."),
    ] = False,
    within: Within = WITHIN_S,
) -> Output:
    """Query a published view.

    A view with calendar windows has a zone: its windows are printed in that zone, and times without a zone are read in it.
    `--format json` has both: the bounds in UTC, and in `_local` those in the zone. `csv`, `ndjson`, `arrow` and `parquet` hold
    exact values: decimals and integers of any size with all digits, and NULL.

    One line on stderr states how many records of the log are not counted yet, and whether the broker or the speed layer is
    dead or stuck. It also names offsets that wait behind a transaction that has been open for more than a minute.
    """
    if last_ is not None and (from_, to, one) != (None, None, False):
        raise BadSelection("--last cannot be combined with --from, --to or --one")
    if publication is not None and as_of is not None:
        raise BadSelection("--publication and --as-of cannot be combined")
    if release is not None and (publication, as_of) != (None, None):
        raise BadSelection("--release cannot be combined with --publication or --as-of")
    choice = RowChoice(parse_order(order_by or []), limit, parse_columns(columns or []))
    how = format_of(call, format_, out)
    settings = call.settings()
    tables = Tables.of(settings)
    number = publication if as_of is None else live_at(tables, parse_time(as_of))
    reader = Reader(tables, number, asked=(of_release := release_of(settings, release)))
    counted = layer or ("merged" if number is None else "batch")
    live = counted in ("merged", "speed")
    if wait and not live:
        raise BadSelection("--wait cannot be combined with --publication, --as-of or --layer batch")
    source = reader.view(view).source
    zone = None if utc else zone_name(reader.view(view))
    between = parse_between(from_, to, clocks(zone))
    asked = LogAsked(settings, [source]) if live and not wait else None
    if wait:
        if (late := wait_until_counted(settings, ends_now(settings, source), seconds=within, asked=of_release)) is not None:
            call.say(f"tandem: {late.sentence}")
            return Output({"error": late.sentence, "code": "not-in-time", "uncounted": late.records}, code=UNHEALTHY)
        reader.refresh()
    drift = working_tree_drift(call, reader)
    if last_ is not None:
        between, one = last(reader.view(view), parse_span(last_), now=clock.now()), True
    keys, valid_at = parse_keys(reader.view(view), key or []), None if at is None else parse_time(at)
    answer = given(
        reader.answer(
            view, keys=keys, between=between, one=one, at=valid_at, layer=counted, limit=None if choice.order else limit
        )
    )
    if receipt is not None:
        selection = select(reader.view(view), keys, between, one=one, at=valid_at)
        write_receipt(receipt, receipt_of(tables, answer, selection))
    now = clock.now()
    if asked is not None and (told := warning(settings, reader.snapshot(), asked.ends(), now=now)) is not None:
        call.say(f"tandem: {told}")
    table, rows = choice.of(answer)
    cells = _cells(rows)
    if zone is not None:
        table, rows, cells = table_in(table, zone), rows_with_local(rows, zone), rows_in(cells, zone)
    in_zone = {} if zone is None else {"zone": zone}
    whence = answer.provenance.to_json(now=now)
    printed = {"view": view, "rows": rows, **in_zone, "provenance": whence, "definitions": drift.to_json()}
    total = None if limit is None else answer.total

    def shown() -> "RenderableType":
        return listing(cells, total=total, below=list(_provenance(answer, now)))

    return output(call, RowOutput(table, rows, cells, whence, printed, shown), how, out)


def _cells(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that all have the same fields: a label of some rows has a column of its own, a label of all rows is a line below."""
    if len({MARK in row for row in rows}) < 2:
        return [{name: value for name, value in row.items() if name != MARK} for row in rows]
    return [{**row, MARK: ", ".join(row.get(MARK, ()))} for row in rows]


def _provenance(answer: Value | Absent, now: datetime) -> Iterator[str]:
    """The provenance of the rows, in lines for a person."""
    whence = answer.provenance
    seconds = age(whence.newest, now=now)
    above, batch = counted(distance(whence.cut, whence.realtime), "offset"), f"batch version {whence.batch_version}"
    if several(root(answer.view)):
        batch = "a batch version of each source"  # together they have a number that says nothing to a person
    layers = {"batch": batch, "speed": f"{above} from the cut on", "merged": f"{batch} and {above} from its cut on"}
    newest = "no events counted yet" if seconds is None else f"newest event {seconds:.1f} s old"
    yield f"{'no rows; ' if isinstance(answer, Absent) else ''}{whence.whose}: {layers[whence.layer]}; {newest}"
    if isinstance(answer.view, Table):
        yield f"the latest versions in {answer.view.parent.name}, at the same position"
    elif isinstance(answer.view, RowsView):
        yield f"the rows of table {answer.view.parent.name} at the same position"
    elif whence.rollup_of:
        yield f"a rollup of {', of '.join(whence.rollup_of)}, at the same position"
    yield from _exactness(answer)
    if whence.watermark is not None:
        # Late events are a line of `status`: after a load of history they would be under every answer.
        yield f"watermark {written(whence.watermark)}"
    if whence.start is not None:
        yield f"history {start_sentence(whence.start.to_json())}"
    if whence.kept_from is not None:
        yield f"windows from {utc_text(whence.kept_from)} on; earlier ones have left the view"
    if whence.history is not None:
        yield from history_lines(whence.history.to_json(), answer.view.source.name)
    for name, each in whence.sources.items():
        yield f"of {name} up to {each.realtime}"
        yield from () if each.start is None else [f"history of {name} {start_sentence(each.start.to_json())}"]
        yield from () if each.history is None else history_lines(each.history.to_json(), name)
    if whence.ahead:
        yield (
            f"{whence.ahead} of the source's events are ahead of their records' timestamps; they count, but do not move the "
            "watermark"
        )
    if whence.rejected:
        yield "rejected by this view: " + ", ".join(f"{number} {reason}" for reason, number in whence.rejected.items())
    yield from (gap.way_on for gap in whence.gaps if gap.name not in whence.accepted)


def _exactness(answer: Value | Absent) -> Iterator[str]:
    """How exact the rows are; where not all of them are touched by realtime states, how many are."""
    yield from answer.provenance.exactness.lines()
    if isinstance(answer, Value) and answer.touched is not None:
        touched, rows = pc.sum(answer.touched).as_py(), len(answer.touched)
        if touched < rows:
            yield f"  {touched} of these {rows} rows may count a duplicate; {MARK} marks them"
