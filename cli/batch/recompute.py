"""`tandem recompute`: fold the log into new batch views, and publish them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated

import typer

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.recompute.build import StepResult
from tandem.batch.recompute.estimate import duration, size
from tandem.batch.recompute.plan import BadRequest, Mode, RecomputeRequest
from tandem.cli.batch.audit import summary
from tandem.cli.command.batch_run import batch_run
from tandem.cli.command.call import Call, Output
from tandem.cli.command.options import AcceptGap
from tandem.cli.log.archive import archived_document, archived_sentence
from tandem.ledger.log.counts import Counts
from tandem.serving.read.selection import parse_time
from tandem.serving.status.releases import document_of
from tandem.views.counted import counted
from tandem.views.instant import utc_text


def run(
    call: Call,
    views: Annotated[
        list[str] | None, typer.Argument(metavar="VIEW", help="Rebuild only these views, at the published cut.")
    ] = None,
    *,
    mode: Annotated[
        Mode,
        typer.Option(
            help="incremental: fold the events since the published cut. full: fold all events below the new cut. auto: "
            "incremental."
        ),
    ] = "auto",
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Rebuild only the windows that the time from here to --to touches, at the published cut (ISO 8601, UTC).",
        ),
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="TIME", help="The end of that time; itself not in it.")] = None,
    keep_cut: Annotated[bool, typer.Option("--keep-cut", help="Rebuild every view at the published cut.")] = False,
    archive_first: Annotated[
        bool, typer.Option("--archive", help="First archive new records, as `tandem archive` does.")
    ] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Decode the archived records again instead of reading the decoded events.")
    ] = False,
    accept_gap: AcceptGap = None,
    publish_anyway: Annotated[
        bool,
        typer.Option(
            "--publish-anyway",
            help="Publish even if served answers differ without an explanation, or rows do not meet a condition.",
        ),
    ] = False,
) -> Output:
    """Fold the archived events into batch views, and publish the views with their cut.

    By default new events are added to the published views; where that is not possible, and with `--mode full`, a source is
    folded from its start. The command uses the definitions of the published release, not the project folder's, and also
    updates the releases that are kept beside it. After a rollback it publishes nothing until `tandem resume`.
    """
    if (from_ is None) != (to is None):
        raise BadRequest("--from needs --to, and --to needs --from")
    request = RecomputeRequest(
        mode,
        tuple(views or ()),
        (parse_time(from_), parse_time(to)) if from_ is not None and to is not None else None,
        keep_cut,
        raw,
        tuple(accept_gap or ()),
        publish_anyway,
    )
    with batch_run(call, "recompute") as batch:
        archived = write_archive.run(batch, call.publishable, locks=("views", "archive")) if archive_first else []
        found = recompute.run(batch, call.publishable, request)
    live = found.publication
    bytes_written = sum(done.written for done in found.done)
    document = {
        "published": bool(found.done),
        "paused": found.paused,
        "publication": live.number,
        "release": live.release,
        "bytes_written": bytes_written,
        "done": [
            {
                "source": done.source,
                "kind": done.kind,
                "start": done.start.to_json(),
                "cut": done.cut.to_json(),
                "views": list(done.views),
                "windows": None if done.windows is None else {"from": utc_text(done.windows[0]), "to": utc_text(done.windows[1])},
                "events": done.events,
                "bytes_written": done.written,
                "seconds": round(done.seconds, 1),
                "estimate": done.ahead.to_json(),
                "actual": {"rows": done.events, "seconds": round(done.seconds, 1)},
            }
            for done in found.done
        ],
        "not_rebuilt": list(found.not_rebuilt),
        "cuts": {source: cut.to_json() for source, cut in live.cuts.items()},
        "counts": {source: counts.to_json() for source, counts in live.counts.items()},
        "rejected": {view: dict(reasons) for view, reasons in live.rejected.items()},
        "views": {name: {"fingerprint": view.fingerprint, "batch_version": view.version} for name, view in live.views.items()},
        "repaired": {source: live.repaired.get(source) for source in live.cuts},
        "gaps": [gap.name for gap in found.gaps],
        "audits": [document_of(audit) for audit in found.audits],
        **({"archived": archived_document(archived)} if archive_first else {}),
    }
    was = "" if found.done else "paused by a rollback until `tandem resume`; " if found.paused else "nothing new; still "
    return Output(
        document,
        "\n".join(
            [
                *map(archived_sentence, archived),
                f"{was}publication {live.number} of release {live.release}",
                *map(_timed, found.done),
                *_as_before(found.not_rebuilt),
                *map(_sentence, live.counts.items()),
                *_repairs(live.repaired),
                *summary(found.audits),
                f"view data written: {size(bytes_written)}",
            ]
        ),
    )


def _timed(done: StepResult) -> str:
    about = done.ahead.estimate
    guessed = "" if about is None else f" (estimated {duration(about.seconds)})"
    kind = done.kind if done.windows is None else f"{_between(*done.windows)} of {', '.join(done.views)}"
    return f"{done.source}: {kind}, {counted(done.events, 'event')} folded in {duration(done.seconds)}{guessed}"


def _between(start: datetime, end: datetime) -> str:
    return f"windows from {utc_text(start)} to {utc_text(end)}"


def _as_before(views: Sequence[str]) -> Iterator[str]:
    if views:
        yield f"not rebuilt, because their windows depend on more than the events of a span of time: {', '.join(views)}"


def _sentence(below: tuple[str, Counts]) -> str:
    source, counts = below
    kinds = [counted(number, noun) for number, noun in ((counts.duplicates, "duplicate"), (counts.rejects, "reject"))]
    return f"{source}: {counted(counts.events, 'event')}, {' and '.join(kinds)} below the cut"


def _repairs(repaired: Mapping[str, int]) -> Iterator[str]:
    for source, number in repaired.items():
        if number:
            yield (
                f"{source}: {counted(number, 'duplicate')} that arrived after dedup_window had been counted as events until now"
            )
