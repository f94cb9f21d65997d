"""`tandem maintain`: the upkeep of the tables, and what it freed."""

from dataclasses import asdict
from datetime import UTC, datetime

from batch import maintain
from cli.call import Call, Output
from cli.listing import aligned
from cli.part_log import run_log


def run(call: Call) -> Output:
    """Make few files of many, take out what no kept publication needs, delete what nobody reads any more; say what that freed.

    `[keep]` in tandem.toml says what is kept. Archive and recompute wait meanwhile, answers and the speed layer go on; that
    layer keeps its own tables up.
    """
    settings = call.settings()
    with run_log(call, settings, "maintain") as say:
        done = maintain.run(settings, now=lambda: datetime.now(UTC), say=say)
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
        "scratch": asdict(done.scratch),
        "freed": asdict(done.freed),
    }
    numbers = ", ".join(map(str, done.retained)) or "none yet"
    lines = [
        *aligned([row for row in rows if any(row[name] for name in row if name != "table")]),
        *(f"discarded {table}" for table in done.discarded),
        f"freed {done.freed.files} files, {done.freed.bytes} bytes; publications that can be asked: {numbers}",
    ]
    return Output(document, "\n".join(lines))
