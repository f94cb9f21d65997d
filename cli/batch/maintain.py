"""`tandem maintain`: compact the tables, delete what no retained publication uses, and report the freed space."""

from dataclasses import asdict
from typing import Any

from tandem.batch.maintain import maintain
from tandem.cli.command.call import Call, Output
from tandem.cli.command.command_log import run_log
from tandem.cli.command.text_tables import aligned
from tandem.infra import clock
from tandem.ledger.log.erasures import Erasure
from tandem.views.counted import counted
from tandem.views.instant import utc_text


def run(call: Call) -> Output:
    """Compact tables, delete rows and files that no retained publication uses, and report the freed space.

    `[keep]` in tandem.toml sets the retention. Archive and recompute runs wait meanwhile; answers and the speed layer
    continue. The speed layer maintains its own tables.
    """
    settings = call.settings()
    with run_log(call, settings, "maintain") as say:
        done = maintain.run(settings, now=clock.now, say=say)
    rows = [
        {
            "table": one.table,
            "compacted": one.compacted,
            "into": one.into,
            "expired": one.expired,
            "files": one.freed.files,
            "bytes": one.freed.bytes,
        }
        for one in done.tables
    ]
    document = {
        "retained": list(done.retained),
        "tables": rows,
        "discarded": list(done.discarded),
        "expired": [_expiry(each) for each in done.expired],
        "scratch": asdict(done.scratch),
        "freed": asdict(done.freed),
    }
    numbers = ", ".join(map(str, done.retained)) or "none yet"
    lines = [
        *aligned([row for row in rows if any(row[name] for name in row if name != "table")]),
        *(f"discarded {table}" for table in done.discarded),
        *(
            f"{each.source}: {counted(each.ranges.length, 'offset')} expired as {each.name}"
            f"{'' if each.until is None else f', with events until {utc_text(each.until)}'}"
            for each in done.expired
        ),
        f"freed {done.freed.files} files, {done.freed.bytes} bytes; retained publications: {numbers}",
    ]
    return Output(document, "\n".join(lines))


def _expiry(erasure: Erasure) -> dict[str, Any]:
    return {
        "erasure": erasure.name,
        "source": erasure.source,
        "positions": erasure.ranges.to_json(),
        "until": None if erasure.until is None else utc_text(erasure.until),
    }
