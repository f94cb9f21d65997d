"""`tandem quarantine`: the records that are no events, and why."""

from typing import Annotated, Any

import typer

from cli.call import Call, Output
from cli.listing import listing
from ledger import publications, releases
from ledger.tables import Tables
from serving.quarantine import rejects
from views.errors import TandemError, listed


def run(
    call: Call,
    *,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="Only this source's.")] = None,
    limit: Annotated[int | None, typer.Option(min=0, metavar="N", help="Only the newest N.")] = None,
) -> Output:
    """List the records that could not be read as events, the newest first, as `tandem archive` has filed them."""
    tables = Tables(call.settings().state)
    decoders = _decoders(call, tables)
    if source is not None and source not in decoders:
        raise TandemError(f"no source {source!r}; sources: {listed(source, decoders)}")
    chosen = decoders if source is None else {source: decoders[source]}
    found = [(name, reject) for name, decoder in chosen.items() for reject in rejects(tables, name, decoder).to_pylist()]
    found.sort(key=lambda each: each[1]["timestamp"], reverse=True)
    rows = [_row(name, reject) for name, reject in found[:limit]]
    below = [] if found else ["nothing in quarantine; records are filed by `tandem archive`"]
    total = None if limit is None else len(found)
    return Output({"rejects": rows, "total": len(found)}, listing([_flat(row) for row in rows], total=total, below=below))


def _decoders(call: Call, tables: Tables) -> dict[str, str]:
    """The decoder fingerprint of each published source; of a project that has published nothing, its sources without one."""
    live = publications.latest(tables)
    if live is None:
        return dict.fromkeys(call.definitions().sources, "")
    return dict(releases.load(tables, live.release).sources)


def _row(source: str, reject: dict[str, Any]) -> dict[str, Any]:
    return {
        "source": source,
        "topic_id": reject["topic_id"],
        "partition": reject["partition"],
        "offset": reject["offset"],
        "timestamp": reject["timestamp"].isoformat().replace("+00:00", "Z"),
        "reason": reject["reason"],
        "detail": reject["detail"],
        "first_bytes": (reject["first_bytes"] or b"").decode("utf-8", "backslashreplace"),
    }


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row narrow enough for a screen."""
    position = f"{row['topic_id']}/{row['partition']}:{row['offset']}"
    return {"source": row["source"], "position": position, **{name: row[name] for name in ("reason", "detail", "first_bytes")}}
