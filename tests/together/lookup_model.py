"""An executable model of look-ups in tables, in plain Python: nested loops over events and versions.

It shares nothing with the platform's `views`. A version is a record of the table's source with its `place` in the log.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Record = Mapping[str, Any]


@dataclass(frozen=True)
class LookupModel:
    """What an event finds: the version of its key that is valid at its time, or the latest, unless the key is gone with it."""

    key_of_event: Callable[[Record], Sequence[Hashable]]
    key_of_version: Callable[[Record], Sequence[Hashable]]
    gone: Callable[[Record], bool]
    order: Literal["time", "log"] = "time"
    how: Literal["as_of", "now"] = "as_of"

    def row(self, event: Record, versions: Iterable[Record]) -> Record | None:
        """The version that an event finds among these."""
        best: Record | None = None
        key = self.key_of_event(event)
        if any(part is None for part in key):
            return None
        for version in versions:
            if self.key_of_version(version) != key or (self.how == "as_of" and version["at"] > event["at"]):
                continue
            if best is None or self._rank(best) < self._rank(version):
                best = version
        return None if best is None or self.gone(best) else best

    def _rank(self, version: Record) -> tuple[Any, ...]:
        place: tuple[Any, ...] = version["place"]
        return place if self.order == "log" else (version["at"], *place)
