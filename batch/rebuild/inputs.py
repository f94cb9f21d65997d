"""What a rebuild computes: the events of one source below a cut, into states of its views."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from batch.fold.fold import Pair
from ledger.delta.addresses import Tables
from ledger.log.positions import Position
from ledger.publish.batch_parts import BatchView, Part, Windows
from ledger.publish.releases import Release
from views.source.source import Source

SERVED: Final[Pair] = ("served", "folded")
REPLAYED: Final[Pair] = ("replayed", "folded")
SERVED_AND_REPLAYED: Final[Pair] = ("served", "replayed")


@dataclass(frozen=True)
class Served:
    """What answers were merged from: the parts of each view, and the files of the release's realtime table, up to `end`.

    Beyond `end` lies a bridge, which answers do not cross.
    """

    parts: Mapping[str, tuple[Part, ...]] = field(hash=False)
    commits: tuple[str, ...]
    end: Position


@dataclass(frozen=True)
class Gained:
    """A view that only gained `measures`: its batch view at the cut without them, and what that rejected, by reason."""

    measures: tuple[str, ...]
    there: BatchView
    rejected: Mapping[str, int] = field(hash=False)


@dataclass(frozen=True)
class RebuildJob:
    """Fold the events of `[start, cut)` of a release's source into its views.

    Args:
        views: for each view to build, its newest parts; their states are merged with the folded ones.
        version: the batch version to write; None compares only, and writes nothing.
        raw: decode the archive again instead of reading the events table.
        windows: build only windows that start within these bounds.
        served: compare the folded states with what answers were merged from.
        replayed: tables with a realtime table of the same release that reaches the cut; compare with that, too.
        gained: views of which only these measures are folded; their other states are read.
        live: the batch views that exist, whose tables are read and written.
    """

    release: Release
    source: Source
    start: Position
    cut: Position
    views: Mapping[str, tuple[Part, ...]] = field(hash=False)
    version: int | None
    raw: bool = False
    windows: Windows | None = None
    served: Served | None = None
    replayed: Tables | None = None
    gained: Mapping[str, Gained] = field(default_factory=dict, hash=False)
    live: Mapping[str, BatchView] = field(default_factory=dict, hash=False)

    @property
    def decoder(self) -> str:
        """The fingerprint of the source's decoder, which names the events and quarantine tables."""
        return self.release.sources[self.source.name]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The sides to compare with each other."""
        if self.served is None:
            return ()
        return (SERVED,) if self.replayed is None else (SERVED, REPLAYED, SERVED_AND_REPLAYED)

    @property
    def compared_to(self) -> Position:
        """Where the comparison ends: events from here to the cut are folded, and compared with nothing."""
        return self.cut if self.served is None else self.served.end

    def batch_view(self, view: str) -> BatchView:
        """The batch view whose table is written: the existing one, else a new one in the view's own table."""
        return self.live.get(view, BatchView(self.release.views[view]))
