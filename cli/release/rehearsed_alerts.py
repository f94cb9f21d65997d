"""The alerts that would have been raised, cleared and corrected at the checkpoints of a rehearsal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tandem.batch.fold.two_versions import Side
from tandem.batch.rehearse.rehearse import Rehearsal
from tandem.cli.release.rehearsed_rows import AlertChanges, RehearsedRows, refuse_wide
from tandem.ledger.log.positions import Position
from tandem.ledger.united_positions import unite
from tandem.serving.sinks.alerts.definition import bind_alert
from tandem.serving.sinks.alerts.episodes import AlertStep, Basis, Edge, Episode, Place, advance
from tandem.views.alert import Alert
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.instant import time_of
from tandem.views.source.united_source import sources_of
from tandem.views.source.watermark import least
from tandem.views.view import View


@dataclass(frozen=True)
class RehearsedEdge:
    """An edge of an alert of one side, and the number of its checkpoint."""

    checkpoint: int
    side: Side
    edge: Edge


def edges_of(rehearsal: Rehearsal[RehearsedRows]) -> list[RehearsedEdge]:
    """The edges of both sides' alerts, by checkpoint, without those of rows that meet a condition at the first one already.

    Raises TooManyRows.
    """
    sides: Sequence[tuple[Side, dict[str, Alert]]] = (
        ("old", dict(rehearsal.change.old.alerts)),
        ("new", dict(rehearsal.change.new.alerts)),
    )
    edges = [
        RehearsedEdge(number, side, edge)
        for side, alerts in sides
        for alert in alerts.values()
        if alert.view.name in rehearsal.views
        for number, edge in _edges(rehearsal, side, alert)
        if not edge.quiet
    ]
    return sorted(edges, key=lambda each: each.checkpoint)


def _edges(rehearsal: Rehearsal[RehearsedRows], side: Side, alert: Alert) -> Iterator[tuple[int, Edge]]:
    project = rehearsal.change.old if side == "old" else rehearsal.change.new
    view = project.every_view[alert.view.name]
    bound, before, episodes = bind_alert(alert, view), None, dict[Place, Episode]()
    for number, time in enumerate(rehearsal.checkpoints):
        now, at = _basis(rehearsal, side, view, number), time_of(time)
        if before is None or now.realtime != before.realtime:
            changes = _changes(rehearsal, side, alert, number)
            rows = [row for each in changes for row in each.rows]
            gone = [place for each in changes for place in each.gone]
            step = AlertStep(rows, gone, before, now, at, whole=before is None, first=before is None)
        elif alert.hold:
            # No new events: as in the process that runs alerts, time alone may end a hold.
            step = AlertStep((), (), before, now, at)
        else:
            continue
        episodes, edges = advance(bound.terms, episodes, step)
        refuse_wide(bound, len(episodes))
        before = now
        yield from ((number, edge) for edge in edges)


def _changes(rehearsal: Rehearsal[RehearsedRows], side: Side, alert: Alert, number: int) -> list[AlertChanges]:
    results, place = rehearsal.views[alert.view.name].results, (side, alert.name)
    return [some.alerts[place] for some in results if some.checkpoint == number and place in some.alerts]


def _basis(rehearsal: Rehearsal[RehearsedRows], side: Side, view: View, number: int) -> Basis:
    change = rehearsal.change
    at = {source.name: rehearsal.sources[side, source.name][number] for source in sources_of(view.source)}
    counts = unite({name: each.counts for name, each in at.items()}) if len(at) > 1 else next(iter(at.values())).counts
    release = change.before if side == "old" else change.after
    watermark, nothing = least([each.watermark for each in at.values()]), Position.of({}).to_json()
    return Basis(change.live.number, release.number, fingerprint(view), 0, nothing, counts.to_json(), watermark)
