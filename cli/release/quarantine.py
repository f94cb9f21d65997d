"""`tandem quarantine`: the rejected records and events of lists, and why; and how the project's folder would decode them."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final

import pyarrow as pa
import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.text_tables import below_lines, cell, listing
from tandem.cli.records.redecode import At, RetriedReject, decode_again
from tandem.cli.release import apply
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.registry_schemas import schemas_in
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Releases
from tandem.serving.status.quarantine import After, reject_totals, rejects
from tandem.views.counted import counted
from tandem.views.errors import TandemError, listed
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.instant import utc_text

_PAGE: Final = 20
_RETRIED: Final = 100
_MOST: Final = 1000
_AT: Final = re.compile(r"(?P<topic>[^/]+)/(?P<partition>\d{1,9}):(?P<offset>\d{1,18})(?:#(?P<index>\d{1,7}))?", re.ASCII)


def run(
    call: Call,
    *,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="Only records of this source.")] = None,
    reason: Annotated[str | None, typer.Option(metavar="REASON", help="Only records with this reason.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, metavar="N", help="At most N records; 20 without --retry.")] = None,
    after: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Older records: the cursor that the previous page ends with.")
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Decode them again with the project folder's definitions, and show the results.")
    ] = False,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC_ID/PARTITION:OFFSET[#INDEX]", help="With --retry: this record, or event; may be repeated."),
    ] = None,
    count: Annotated[
        bool,
        typer.Option("--count", help="With --retry: apply and promote the definitions, so that what became readable counts."),
    ] = False,
) -> Output:
    """Sum up the records that could not be decoded by source and reason, then list them, newest first, page by page.

    `tandem archive` puts them into quarantine. `first_bytes` of a record that begins with a CSV header are those after it.

    Where a record holds a list, each event that could not be decoded is listed by itself, with its index after the offset.

    With `--retry` the command reads the newest 100 records of one source (`--limit`, at most 1000), or the records that `--at`
    names, from the archive and decodes them with the definitions in the project's folder. It prints which would become events,
    and why the others would not, and writes nothing. `tandem plan` counts all rejects that become readable.

    Where the decoder has changed, `--count` then does what `tandem apply --auto-promote` does, with all that has changed in the
    folder: every record is decoded again, below the cut and above it, and each event counts once. Where none of the decoded
    records becomes an event, it does nothing.
    """
    tables = Tables.of(call.settings())
    decoders = _decoders(call, tables)
    if source is not None and source not in decoders:
        raise TandemError(f"no source {source!r}; sources: {listed(source, decoders)}", code="source-unknown")
    if retry and after is not None:
        raise TandemError("--retry and --after cannot be combined; name records with --at", code="usage-invalid")
    if retry:
        output, readable = _retry(
            call, decoders, source, at or [], lambda name: _newest(tables, name, decoders[name], reason, limit)
        )
        return _count(call, output, readable=readable) if count else output
    if at or count:
        option = "--at needs --retry: it names records" if at else "--count needs --retry: it counts records"
        raise TandemError(f"{option} to decode again", code="usage-invalid")
    chosen = decoders if source is None else {source: decoders[source]}
    totals = [(name, total) for name, decoder in chosen.items() for total in reject_totals(tables, name, decoder, reason=reason)]
    found, cursor = _page(
        tables, chosen, reason, _PAGE if limit is None else limit, None if after is None else After.parse(after)
    )
    rows = [_row(name, reject) for name, reject in found]
    total = sum(each.records for _, each in totals)
    document = {
        "summary": [
            {"source": name, "reason": each.reason, "records": each.records, "newest": utc_text(each.newest)}
            for name, each in totals
        ],
        "rejects": rows,
        "total": total,
        "next": cursor,
    }
    if not total:
        return Output(document, "nothing in quarantine; `tandem archive` puts records there")
    above = [f"{name}: {counted(each.records, 'record')} {each.reason}, newest {utc_text(each.newest)}" for name, each in totals]
    below = [f"older records: --after {cursor}"] if cursor else []
    return Output(document, below_lines(above, listing([_flat(row) for row in rows], total=total, below=below)))


def _page(
    tables: Tables, decoders: Mapping[str, str], reason: str | None, limit: int, after: After | None
) -> tuple[list[tuple[str, dict[str, Any]]], str | None]:
    """At most `limit` rejects of all sources, and the cursor of the next page. One record of two sources is on one page."""
    pages = {
        name: rejects(tables, name, decoder, reason=reason, after=after, limit=limit + 1) for name, decoder in decoders.items()
    }
    rows = [(name, reject) for name, page in pages.items() for reject in page.to_pylist()]
    rows.sort(key=lambda row: (*_place_of(row[1])[:2], -row[1]["offset"], -(row[1]["index"] or 0)))
    rows.sort(key=lambda row: row[1]["timestamp"], reverse=True)
    end = limit
    while 0 < end < len(rows) and _place_of(rows[end][1]) == _place_of(rows[end - 1][1]):
        end += 1
    last = rows[end - 1 : end] if end else []
    if not last or end >= len(rows):
        return rows[:end], None
    return rows[:end], str(After.of(pa.Table.from_pylist([last[0][1]], pages[last[0][0]].schema)))


def _place_of(reject: Mapping[str, Any]) -> At:
    return reject["topic_id"], reject["partition"], reject["offset"], reject["index"]


def _newest(tables: Tables, source: str, decoder: str, reason: str | None, limit: int | None) -> list[At]:
    """The positions of the newest records of a quarantine."""
    most = _RETRIED if limit is None else limit
    if most > _MOST:
        raise TandemError(f"{most} records are too many to decode again at once; at most {_MOST}", code="usage-invalid")
    found = rejects(tables, source, decoder, reason=reason, limit=most)
    return list(zip(*(found[column].to_pylist() for column in ("topic_id", "partition", "offset", "index")), strict=True))


def _retry(
    call: Call, decoders: Mapping[str, str], source: str | None, at: list[str], newest: Callable[[str], list[At]]
) -> tuple[Output, bool]:
    """Decode these records, else the newest of the quarantine, with the definitions in the project's folder.

    Also returns whether a release of these definitions would count any of them.
    """
    if source is None and len(decoders) != 1:
        raise TandemError(
            f"--retry needs one source: name it with --source; sources: {listed('', decoders)}", code="usage-invalid"
        )
    name, tables, defined = source or next(iter(decoders)), Tables.of(call.settings()), call.definitions().sources
    if name not in defined:
        raise TandemError(
            f"the project's folder does not define source {name!r}; sources: {listed(name, defined)}", code="source-unknown"
        )
    if len(at) > _MOST:
        raise TandemError(f"{len(at)} records are too many to decode again at once; at most {_MOST}", code="usage-invalid")
    schemas = schemas_in(call.settings().registry, tables)
    done = decode_again(tables, defined[name], [_at(text) for text in at] or newest(name), schemas)
    changed = decoder_fingerprint(defined[name]) != decoders[name]
    names = ArchiveLedger(tables, name).topic_names()
    events = [(_place(one, names), number, done.events[one]) for one, number in done.numbers.items()]
    document = {
        "source": name,
        "decoder_changed": changed,
        "tried": done.tried,
        "events": len(events),
        "others": done.others,
        "would_be": [{**place, "number": number, "events": list(first)} for place, number, first in events],
        "would_fail": [{**_place(one, names), "reason": why, "detail": detail} for one, (why, detail) in done.rejects.items()],
        "reasons": done.reasons,
    }
    return Output(document, "\n".join(_lines(done, changed=changed))), changed and bool(events)


def _count(call: Call, retried: Output, *, readable: bool) -> Output:
    """Apply and promote the definitions with which the records were decoded, if any of them is readable."""
    if not readable:
        return Output({**retried.document, "applied": None}, f"{retried.shown}\nnothing to count: nothing was applied")
    applied = apply.run(call, auto_promote=True, why=f"count rejects of source {retried.document['source']}")
    return Output({**retried.document, "applied": applied.document}, f"{retried.shown}\n{applied.shown}", applied.code)


def _at(text: str) -> At:
    match = _AT.fullmatch(text)
    if match is None:
        raise TandemError(
            f"invalid --at {text!r}; expected TOPIC_ID/PARTITION:OFFSET, as `tandem quarantine` prints it", code="usage-invalid"
        )
    index = None if match["index"] is None else int(match["index"])
    return match["topic"], int(match["partition"]), int(match["offset"]), index


def _place(at: At, names: Mapping[str, str]) -> dict[str, Any]:
    topic, partition, offset, index = at
    return {"topic": names.get(topic, topic), "topic_id": topic, "partition": partition, "offset": offset, "index": index}


def _position(topic: str, partition: int, offset: int, index: int | None) -> str:
    """A place as `--at` takes it."""
    return f"{topic}/{partition}:{offset}" + ("" if index is None else f"#{index}")


def _lines(done: RetriedReject, *, changed: bool) -> Iterator[str]:
    """The outcome for a person."""
    others = f", {done.others} of other sources" if done.others else ""
    yield f"{done.tried} records: {len(done.numbers)} would be events, {len(done.rejects)} would not{others}"
    for at in done.numbers:
        yield f"  {_position(*at)}: {cell(done.events[at][0])}"
    for at, (reason, detail) in done.rejects.items():
        yield f"  {_position(*at)}: {reason}: {cell(detail)}"
    yield (
        "`tandem apply` and `tandem promote` decode all records, including these, with the project folder's definitions, and "
        "count each event once; `--count` does both"
        if changed
        else "the decoder is the published one, so `tandem apply` does not change these records"
    )


def _decoders(call: Call, tables: Tables) -> dict[str, str]:
    """The decoder fingerprint of each published source; before the first publication, the folder's sources without one."""
    live = Publications(tables).latest()
    if live is None:
        return dict.fromkeys(call.definitions().sources, "")
    return dict(Releases(tables).load(live.release).sources)


def _row(source: str, reject: dict[str, Any]) -> dict[str, Any]:
    return {
        "source": source,
        "topic_id": reject["topic_id"],
        "partition": reject["partition"],
        "offset": reject["offset"],
        "index": reject["index"],
        "timestamp": utc_text(reject["timestamp"]),
        "reason": reject["reason"],
        "detail": reject["detail"],
        "first_bytes": (reject["first_bytes"] or b"").decode("utf-8", "backslashreplace"),
    }


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row narrow enough for a screen."""
    position = _position(row["topic_id"], row["partition"], row["offset"], row["index"])
    return {"source": row["source"], "position": position, **{name: row[name] for name in ("reason", "detail", "first_bytes")}}
