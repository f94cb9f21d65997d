"""What the working tree defines otherwise than the published release, which is what answers go by."""

from dataclasses import dataclass
from typing import Any

from ledger.publications import Publication
from views.fingerprint import decoder_fingerprint, fingerprint
from views.project import Project


@dataclass(frozen=True)
class Drift:
    """Views by name: those that mean something else in the working tree, those only it has, and those only the release has.

    `sources` are those that differ in any way. `problem` says why nothing could be compared, if it could not.
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

    def sentences(self) -> list[str]:
        """What a person is told; nothing if there is no difference."""
        if self.problem:
            return [f"the definitions in the project's folder cannot be read; answers go by the published ones: {self.problem}"]
        named = {"changed views": self.changed, "new views": self.added, "removed views": self.removed, "sources": self.sources}
        differences = "; ".join(f"{what}: {', '.join(names)}" for what, names in named.items() if names)
        if not differences:
            return []
        return [f"definitions differ from what is published ({differences}); answers follow after `tandem recompute --adopt`"]


def drift(working: Project, published: Project, publication: Publication) -> Drift:
    """Compare the working tree with the published definitions; a view that another kernel computed has changed too."""
    live = {name: view.fingerprint for name, view in publication.views.items()}
    here = {name: fingerprint(view) for name, view in working.views.items()}
    names = [*published.sources, *(name for name in working.sources if name not in published.sources)]
    return Drift(
        changed=tuple(name for name in here if name in live and here[name] != live[name]),
        added=tuple(name for name in here if name not in live),
        removed=tuple(name for name in live if name not in here),
        sources=tuple(name for name in names if _meaning(working, name) != _meaning(published, name)),
    )


def _meaning(project: Project, name: str) -> tuple[object, ...] | None:
    source = project.sources.get(name)
    if source is None:
        return None
    times = (source.lateness, source.idle, source.horizon)
    return (source.topic, decoder_fingerprint(source), source.identity, *times)
