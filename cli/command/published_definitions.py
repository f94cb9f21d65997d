"""The definitions that the platform uses: those of the published release, or the working tree's before the first publication."""

from tandem.cli.command.call import Call
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Releases
from tandem.views.errors import TandemError, listed
from tandem.views.project.project import Project, load_files
from tandem.views.source.record_filter import ByHeader
from tandem.views.source.source import Source


def definitions(call: Call, tables: Tables) -> Project:
    """The published definitions, else the working tree's; raises TandemError."""
    return published(tables) or call.definitions()


def published(tables: Tables) -> Project | None:
    """The published definitions, if anything is published; raises TandemError."""
    live = Publications(tables).latest()
    return None if live is None else load_files(Releases(tables).load(live.release).files)


def topic(source: Source, name: str | None) -> str:
    """The source's topic to send records to: the only one, or the named one. Raises TandemError, which lists the valid names.

    Refuses a source that selects its records by a header, because the sent records have none.
    """
    if isinstance(source.record_filter, ByHeader):
        raise TandemError(
            f"source '{source.name}' selects records by their header {source.record_filter.name!r}, which this command does not "
            "write; use your own producer"
        )
    if name is None and len(source.topics) == 1:
        return source.topics[0]
    if name is None or not source.reads(name):
        wrong = f"source '{source.name}' has several topics" if name is None else f"source '{source.name}' has no topic '{name}'"
        topics = listed(name or "", source.topics) if source.pattern is None else f"those that match {source.pattern}"
        raise TandemError(f"{wrong}: choose one with --topic; topics: {topics}", code="usage-invalid")
    return name


def source(project: Project, name: str) -> Source:
    """A source by name. Raises TandemError, which lists the valid names."""
    if name not in project.sources:
        raise TandemError(f"no source '{name}'; sources: {listed(name, project.sources)}", code="source-unknown")
    return project.sources[name]
