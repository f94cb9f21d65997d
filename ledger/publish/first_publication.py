"""Publication 1, which `up`, or the first speed or batch run, adds for a project that has published nothing yet."""

from collections.abc import Callable
from datetime import datetime

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import adoption
from tandem.ledger.publish.publications import Publication, Publications
from tandem.views.project.project import Project


def live(tables: Tables, working_tree: Callable[[], Project], *, by: str, at: datetime) -> Publication:
    """The live publication; without one, the working tree's definitions become release 1 and publication 1, an empty batch.

    If anything is published, the working tree is not loaded, so it may be broken.
    """
    publications = Publications(tables)
    live = publications.latest()
    if live is not None:
        return live
    release = adoption.adopt(tables, working_tree(), by=by, at=at)
    return publications.initial(release=release.number, sources=release.sources, views=release.views, by=by, at=at)
