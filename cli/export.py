"""`tandem export`: a source's archive as a folder of Parquet files, for another installation."""

from pathlib import Path
from typing import Annotated

import typer

from batch import exporting
from cli.call import Call, Output
from cli.published import definitions, source
from ledger import archive
from ledger.tables import Tables


def run(
    call: Call,
    sources: Annotated[list[str] | None, typer.Argument(metavar="[SOURCE]...", help="The sources to export.")] = None,
    *,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is empty or absent.")],
    every: Annotated[bool, typer.Option("--all", help="Export every source of which something is archived.")] = False,
) -> Output:
    """Write the archive of SOURCE, or of all, to DIR: its records byte for byte in Parquet files, and a manifest about them.

    The manifest names the topics, the offsets that are covered, gaps, and each file with its SHA-256. It is written last: a
    folder without one is no export, and the command may be run again on it. Archive runs may go on meanwhile; `tandem maintain`
    should not delete what is being read, so keep `keep.file_hours` above the time that an export takes. Needs neither Spark nor
    the broker.
    """
    tables = Tables(call.settings().state)
    project = definitions(call, tables)
    if every == bool(sources):
        raise typer.BadParameter("name the sources to export, or give --all")
    chosen = [source(project, name).name for name in sources or ()] or [
        name for name in project.sources if archive.archived(tables, name)
    ]
    if not chosen:
        raise exporting.NotExported("nothing is archived yet; `tandem archive` comes first")
    made = exporting.run(tables, list(dict.fromkeys(chosen)), folder, say=call.say)
    found = {
        name: {
            "topics": [topic.name for topic in one.topics],
            "covered": one.ranges.to_json(),
            "records": one.rows,
            "files": sum(stretch.file is not None for stretch in one.stretches),
            "gaps": len(one.gaps),
        }
        for name, one in made.sources.items()
    }
    lines = (f"{name}: {one['records']} records in {one['files']} files, {one['gaps']} gaps" for name, one in found.items())
    return Output({"folder": str(folder), "sources": found}, "\n".join(lines))
