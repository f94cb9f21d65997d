"""Drift: how the working tree's definitions differ from the published release, which answers use."""

from dataclasses import dataclass
from typing import Any

from tandem.batch.release.declared_starts import with_stored_starts
from tandem.cli.command.call import Call
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Releases
from tandem.serving.read.merged_layers import Reader
from tandem.views.errors import DefinitionError, TandemError
from tandem.views.fingerprint.definition_diff import DefinitionChanges, Fingerprints, Status, compare
from tandem.views.fingerprint.from_time import from_time
from tandem.views.project.project import Project, load_files


@dataclass(frozen=True)
class Drift:
    """Views by name: those with another meaning in the working tree, those only it has, and those only the release has.

    `sources` are those that differ in any way. `problem` is the reason if nothing could be compared.
    """

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The drift as `status` and `query` print it."""
        return {
            "changed": list(self.changed),
            "added": list(self.added),
            "removed": list(self.removed),
            "sources": list(self.sources),
            "problem": self.problem,
        }

    def sentences(self, answering: str = "the published ones") -> list[str]:
        """The sentence for the user on how the definitions differ from the `answering` ones; none if they are equal."""
        if self.problem:
            return [f"the definitions in the project's folder cannot be read; answers use {answering}: {self.problem}"]
        named = {"changed views": self.changed, "new views": self.added, "removed views": self.removed, "sources": self.sources}
        differences = "; ".join(f"{what}: {', '.join(names)}" for what, names in named.items() if names)
        if not differences:
            return []
        how = "`tandem plan` shows how; `tandem apply` and `tandem promote` publish them"
        return [f"definitions differ from {answering} ({differences}); {how}"]


def drift(changes: DefinitionChanges) -> Drift:
    """The names of changed definitions."""

    def views(status: Status) -> tuple[str, ...]:
        return tuple(view.name for view in changes.views if view.status == status)

    sources = tuple(source.name for source in changes.sources if source.status != "unchanged")
    return Drift(views("changed"), views("added"), views("removed"), sources)


def since_published(tables: Tables, live: Publication | None, wanted: Project) -> DefinitionChanges:
    """The changes from the published definitions to the wanted ones; everything is new if nothing is published.

    Raises TandemError if the published definitions cannot be loaded.
    """
    if live is None:
        return compare(Project(None, {}, {}, {}), wanted)
    release = Releases(tables).load(live.release)
    try:
        published = load_files(release.files)
    except DefinitionError as error:
        raise TandemError(
            f"the definitions of release {release.number} cannot be used: {error}", code="definition-invalid"
        ) from error
    # Unchanged views keep their earlier definitions, as `apply` keeps them.
    wanted = from_time(with_stored_starts(wanted, [release]), published, {})
    return compare(published, wanted, Fingerprints(release.sources, release.views))


def with_published_times(call: Call, wanted: Project) -> Project:
    """The definitions, whose unchanged views keep the published earlier ones; the definitions alone if those cannot be read."""
    try:
        tables = Tables.of(call.settings())
        live = Publications(tables).latest()
        return wanted if live is None else from_time(wanted, load_files(Releases(tables).load(live.release).files), {})
    except TandemError:
        return wanted


def working_tree_drift(call: Call, reader: Reader) -> Drift:
    """Return how the working tree differs from the definitions that answers use, and print it on stderr.

    If the working tree cannot be read, the drift has a `problem`, and the command still answers.
    """
    snapshot = reader.snapshot()
    publication = snapshot.publication
    try:
        found = drift(since_published(reader.tables, publication, call.definitions()))
    except TandemError as error:
        found = Drift(problem=str(error))
    answering = "the published ones" if snapshot.live else f"those of release {publication.release}"
    for sentence in found.sentences(answering):
        call.say(sentence)
    return found
