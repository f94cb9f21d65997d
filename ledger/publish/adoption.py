"""From a project to the release that stores it."""

from collections.abc import Container
from datetime import datetime

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import documents, releases
from tandem.ledger.publish.releases import Release
from tandem.views.document.document import document_of
from tandem.views.fingerprint.fingerprint import decoder_fingerprint, fingerprint
from tandem.views.project.project import Project


def adopt(tables: Tables, project: Project, *, by: str, at: datetime, over: Container[int] = ()) -> Release:
    """Store the project as a release with its document: a new one unless the newest is the same and not in `over`."""
    sources, views = _fingerprints(project)
    stored = releases.store(
        tables,
        project.files,
        sources=sources,
        views=views,
        by=by,
        at=at,
        over=over,
        revision=project.revision,
    )
    documents.record(tables, stored.number, document_of(project))
    return stored


def defines(release: Release, project: Project) -> bool:
    """Whether the project has the same files with the same fingerprints as the release."""
    return (release.files, release.sources, release.views) == (project.files, *_fingerprints(project))


def _fingerprints(project: Project) -> tuple[dict[str, str], dict[str, str]]:
    """The decoder fingerprints of sources and the fingerprints of views, by name."""
    sources = {name: decoder_fingerprint(source) for name, source in project.sources.items()}
    return sources, {name: fingerprint(view) for name, view in project.views.items()}
