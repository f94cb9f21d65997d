"""Publication 1: what `up`, or the first speed or batch run, makes of a project that has published nothing yet."""

from datetime import datetime

from ledger import publications, releases
from ledger.publications import Publication
from ledger.tables import Tables
from views.fingerprint import decoder_fingerprint, fingerprint
from views.project import Project


def live(tables: Tables, project: Project, *, by: str, at: datetime) -> Publication:
    """The live publication; without one, the project's definitions become release 1 and publication 1, an empty batch.

    Whatever is published stays as it is, be the project's definitions others by now.
    """
    found = publications.latest(tables)
    if found is not None:
        return found
    release = releases.store(
        tables,
        project.files,
        sources={name: decoder_fingerprint(source) for name, source in project.sources.items()},
        views={name: fingerprint(view) for name, view in project.views.items()},
        by=by,
        at=at,
    )
    return publications.initial(tables, release=release.number, sources=release.sources, views=release.views, by=by, at=at)
