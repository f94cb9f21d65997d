"""`tandem export`: a source's archive as a folder of Parquet files, for another installation."""

from pathlib import Path
from typing import Annotated

import typer

from tandem.batch.transfer import export_archive
from tandem.cli.command.call import Call, Output
from tandem.cli.command.published_definitions import definitions, source
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.registry_schemas import schemas_in
from tandem.views.decode.schema_ids import schemas_of
from tandem.views.source.formats.schema_registry import FetchedSchemas


def run(
    call: Call,
    sources: Annotated[list[str] | None, typer.Argument(metavar="SOURCE", help="The sources to export.")] = None,
    *,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An empty or absent folder.")],
    every: Annotated[bool, typer.Option("--all", help="Export every source that has archived records.")] = False,
) -> Output:
    """Write the archive of SOURCE, or of all sources, to DIR: records byte for byte in Parquet files, and a manifest.

    Schemas that the records name, fetched from registries, are in `schemas.json`: an import adds them.

    The manifest lists the topics, the covered offsets, gaps, and each file with its SHA-256. The command writes it last: a
    folder without a manifest is not an export, and the command can be run on it again. Archive runs may continue meanwhile.
    `tandem maintain` must not delete files that are being read, so keep `keep.file_hours` above the duration of an export.
    Neither Spark nor the broker is needed.
    """
    tables = Tables.of(call.settings())
    project = definitions(call, tables)
    if every == bool(sources):
        raise typer.BadParameter("name the sources to export, or use --all")
    chosen = [source(project, name).name for name in sources or ()] or [
        name for name in project.sources if ArchiveLedger(tables, name).archived()
    ]
    if not chosen:
        raise export_archive.NotExported("nothing is archived yet; run `tandem archive` first")

    def schemas() -> FetchedSchemas:
        # Read after the end of the export is fixed: whatever is decoded by then has its schemas stored.
        stored = schemas_in(call.settings().registry, tables)
        return {key: schema for name in chosen for key, schema in schemas_of(stored.bind(project.sources[name])).items()}

    made = export_archive.run(tables, list(dict.fromkeys(chosen)), folder, say=call.say, schemas=schemas)
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
