"""What the working tree defines otherwise than the published release, which is what answers go by."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Drift:
    """Views by name: those that mean something else in the working tree, those only it has, and those only the release has.

    `problem` says why the working tree could not be compared, if it could not.
    """

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The drift as `status` and `query` print it."""
        return {
            "changed": list(self.changed),
            "added": list(self.added),
            "removed": list(self.removed),
            "problem": self.problem,
        }

    def sentences(self) -> list[str]:
        """What a person is told; nothing if there is no difference."""
        if self.problem:
            return [f"the definitions in the project's folder cannot be read; answers go by the published ones: {self.problem}"]
        parts = [
            f"{what} {', '.join(names)}"
            for what, names in (("changed", self.changed), ("new", self.added), ("gone", self.removed))
            if names
        ]
        if not parts:
            return []
        differences = "; ".join(parts)
        return [f"definitions differ from what is published ({differences}); answers follow after `tandem recompute --adopt`"]


def drift(working: Mapping[str, str], published: Mapping[str, str]) -> Drift:
    """Compare views' fingerprints by name."""
    return Drift(
        changed=tuple(name for name in working if name in published and working[name] != published[name]),
        added=tuple(name for name in working if name not in published),
        removed=tuple(name for name in published if name not in working),
    )
