"""From a project to the release that stores it, and to publication 1 of a project that has published nothing yet."""

from collections.abc import Callable
from datetime import datetime

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Release, Releases
from tandem.views.errors import TandemError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint, fingerprint
from tandem.views.project.project import Project
from tandem.views.start import StartPositions, start_text


class UnresolvedStart(TandemError, code="start-unresolved"):
    """A release would not say at which positions a source starts."""


def adopt(tables: Tables, project: Project, *, by: str, at: datetime) -> Release:
    """Store the project as a release: a new one unless the newest is the same. Raises UnresolvedStart."""
    one = candidate(project, 0, by=by, at=at)
    return Releases(tables).store(one.files, sources=one.sources, views=one.views, by=by, at=at, revision=one.revision)


def candidate(project: Project, number: int, *, by: str, at: datetime) -> Release:
    """The release of this number that would store the project. Raises UnresolvedStart."""
    for name, source in project.sources.items():
        if source.start is not None and not isinstance(source.start, StartPositions):
            declared = start_text(source.start)  # type: ignore[arg-type]
            raise UnresolvedStart(
                f"source {name!r} starts at {declared}, which is not offsets yet, so no release can store it; `resolve_starts` "
                "of tandem.batch.release.declared_starts makes them"
            )
    sources, views = _fingerprints(project)
    return Release(number, at, by, sources, views, project.files, project.revision)


def defines(release: Release, project: Project) -> bool:
    """Whether the project has the same files with the same fingerprints as the release."""
    return (release.files, release.sources, release.views) == (project.files, *_fingerprints(project))


def _fingerprints(project: Project) -> tuple[dict[str, str], dict[str, str]]:
    """The decoder fingerprints of sources and the fingerprints of views, by name."""
    sources = {name: decoder_fingerprint(source) for name, source in project.sources.items()}
    return sources, {name: fingerprint(view) for name, view in project.views.items()}


def live(tables: Tables, working_tree: Callable[[], Project], *, by: str, at: datetime) -> Publication:
    """The live publication; without one, the working tree's definitions become release 1 and publication 1, an empty batch.

    If anything is published, the working tree is not loaded, so it may be broken.
    """
    publications = Publications(tables)
    live = publications.latest()
    if live is not None:
        return live
    release = adopt(tables, working_tree(), by=by, at=at)
    return publications.initial(release=release.number, sources=release.sources, views=release.views, by=by, at=at)
