"""What a rebuild is given: the part of the log to fold, the views to build, and earlier states to compare with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tandem.batch.fold.fold_job import Pair
from tandem.batch.runtime.parallelism import in_log_order
from tandem.ledger.delta.location import Location
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.batch_parts import BatchPart, BatchView, Windows
from tandem.ledger.publish.releases import Release
from tandem.views.read_columns import sees_positions
from tandem.views.source.source import Source
from tandem.views.view import View

SERVED: Final[Pair] = ("served", "folded")
REPLAYED: Final[Pair] = ("replayed", "folded")
SERVED_AND_REPLAYED: Final[Pair] = ("served", "replayed")


@dataclass(frozen=True)
class LogRange:
    """The part of the log to fold: the events of `[start, cut)` of a release's source.

    Args:
        windows: fold only windows that start within these bounds.
        raw: decode the archive again instead of reading the events table.
        versions: scratch files with the versions in which views look up, by name of the view of versions.
    """

    release: Release
    source: Source
    start: Position
    cut: Position
    windows: Windows | None = None
    raw: bool = False
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def decoder(self) -> str:
        """The fingerprint of the source's decoder, which names the events and quarantine tables."""
        return self.release.sources[self.source.name]


@dataclass(frozen=True)
class Gained:
    """A view that only gained `measures`: its batch view at the cut without them, and what that rejected, by reason."""

    measures: tuple[str, ...]
    there: BatchView
    rejected: Mapping[str, int] = field(hash=False)


@dataclass(frozen=True)
class ViewTarget:
    """A view to build.

    Args:
        view: its definition.
        batch_view: the batch view whose table is written; empty for a new view.
        merged: its newest parts; their states are merged with the folded ones.
        gained: fold only these measures, and read the states of the others.
    """

    view: View
    batch_view: BatchView
    merged: tuple[BatchPart, ...] = ()
    gained: Gained | None = None

    @property
    def in_log_order(self) -> bool:
        """Whether the view's windows depend on the order of the log: then each event is a state at first."""
        return in_log_order(self.view)

    @property
    def sees_positions(self) -> bool:
        """Whether the view's answer depends on which of several equal duplicates is counted."""
        return sees_positions(self.view)


@dataclass(frozen=True)
class EarlierStates:
    """States of the same events that were computed before: parts of views, and commits of a realtime table, up to `end`.

    Args:
        parts: by view.
        realtime: the location of the realtime table.
        commits: the paths of its files that count.
    """

    parts: Mapping[str, tuple[BatchPart, ...]] = field(hash=False)
    realtime: Location
    commits: tuple[str, ...]
    end: Position


@dataclass(frozen=True)
class Comparison:
    """The states to compare the folded ones with; by default none.

    Args:
        served: what answers were merged from. Beyond its end lies a bridge, which answers do not cross: events from there to the
            cut are folded, and compared with nothing.
        replayed: what the speed path computed of the same events.
    """

    served: EarlierStates | None = None
    replayed: EarlierStates | None = None

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The sides to compare with each other."""
        if self.served is None:
            return ()
        return (SERVED,) if self.replayed is None else (SERVED, REPLAYED, SERVED_AND_REPLAYED)

    def end(self, cut: Position) -> Position:
        """Where the comparison of events below a cut ends."""
        return cut if self.served is None else self.served.end
