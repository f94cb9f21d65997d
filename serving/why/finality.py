"""Since when the row of a window is final, and what may still change it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tandem.ledger.log.positions import Position
from tandem.ledger.publish.publications import Publication, Publications
from tandem.serving.read.snapshot import Snapshot, cut_of
from tandem.views.composite.rollup import root
from tandem.views.instant import EPOCH, microseconds, utc_text
from tandem.views.lookup.lookup import Lookup
from tandem.views.source.united_source import names_of
from tandem.views.source.watermark import final_until, least
from tandem.views.view import View, bind

ANOTHER_RELEASE: Final = "another release of the definitions"
"""What may change any row, also one whose window has left the view."""


@dataclass(frozen=True)
class FinalSince:
    """The first known state in which the row was final: a publication, or a commit after it, and its position by source."""

    at: datetime | None
    publication: int | None
    positions: dict[str, Position]

    def to_json(self) -> dict[str, object]:
        """A JSON object of the fields."""
        return {
            "at": None if self.at is None else utc_text(self.at),
            "publication": self.publication,
            "positions": {name: position.to_json() for name, position in self.positions.items()},
        }


def final_since(snapshot: Snapshot, view: View, end: datetime | None, publications: Publications) -> FinalSince | None:
    """The first state of the release, as far as publications and commits are kept, in which a window that ends then was final.

    None for a window that is not final, that has no end, or that follows the order of the log.
    """
    if end is None or bind(view).placement.in_order:
        return None
    names, until = names_of(root(view).source.name), microseconds(end)
    grace = bind(view).placement.timing.grace

    def final(watermark: int | None) -> bool:
        return watermark is not None and final_until(view.source, watermark, grace) >= until

    live = snapshot.publication
    for each in publications.history():
        if each.number <= live.number and each.release == live.release and final(_watermark(each, names)):
            return FinalSince(each.at, each.number, {name: each.cut(name) for name in names})
    reached = {name: live.watermarks.get(name) for name in names}
    tails = snapshot.of(view).tails
    commits = [(commit.at, name, commit) for name in names for commit in tails[name].every]
    positions = {name: live.cut(name) for name in names}
    for at, name, commit in sorted(commits, key=lambda each: (each[0] is not None, each[0] or EPOCH)):
        positions[name] = commit.end
        reached[name] = max((mark for mark in (reached[name], commit.watermark) if mark is not None), default=None)
        if final(least([*reached.values()])):
            return FinalSince(at, None, positions)
    return None


def _watermark(publication: Publication, names: list[str]) -> int | None:
    return least([publication.watermarks.get(name) for name in names])


def may_change(snapshot: Snapshot, view: View, *, final: bool, end: datetime | None, accepted_only: bool) -> Iterator[str]:
    """What may still change the row, a sentence each."""
    source = view.source
    if bind(view).placement.in_order:
        yield "events that come before others in the order of the log move the windows after them"
    elif end is None:
        yield "every new event of the key"
    elif final:
        yield "events that arrive after the window was final: they count all the same, and late is only a label of them"
    else:
        yield f"events of this window that are still to come: it is final once the watermark is {source.lateness} past its end"
    if source.identity and snapshot.tail(view).end != cut_of(snapshot.publication, root(view)):
        yield "a recompute that removes duplicates which the speed layer could not recognize"
    if any(isinstance(each, Lookup) for each in root(view).lookup.values()):
        yield "versions of a looked-up table's row that come after the event: the next recompute looks up again"
    if not accepted_only:
        yield "the offsets of a gap, if they are found again"
    yield f"{ANOTHER_RELEASE}, and `tandem forget`"
