"""The pure part of alerts: from rows that changed to the rows that are raised, and the edges in between.

An episode is a key and window that meets the alert's condition: it waits, or it is raised. An edge is what is sent of it:

    raised      the row meets the condition, and its window has a label that may be raised
    cleared     it no longer does, since more events of its window were counted, or the window has passed
    corrected   it no longer does, since what was said before has been restated

A step of the view restates if it has another definition, another batch view, or no more of the log than the step before. Any
change of a row whose window was final restates, too: its events are late. A correction is never sent as cleared; a step that has
another batch view and more events is a correction, because the two cannot be distinguished.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from tandem.ledger.log.positions import Position
from tandem.views.instant import MICROSECOND, utc_text

Kind = Literal["raised", "cleared", "corrected"]
Because = Literal["events", "past", "late", "recompute", "definition"]
Place = tuple[tuple[str, Any], ...]
"""The names and values that tell a row from all others, as JSON has them: keys, and the window's start or number."""

_ID_DIGITS: Final = 32


@dataclass(frozen=True)
class Basis:
    """What values count: a batch view below `cut`, and the log from there to `realtime`; times in microseconds since 1970.

    Windows that start before `kept_from` have left the view.
    """

    publication: int
    release: int
    fingerprint: str
    batch_version: int
    cut: Mapping[str, Mapping[str, int]]
    realtime: Mapping[str, Mapping[str, int]]
    watermark: int | None
    kept_from: int | None = None

    @property
    def batch(self) -> tuple[Any, ...]:
        """What tells a batch view, and with it all that is said, from another."""
        return self.fingerprint, self.release, self.batch_version, self.cut


@dataclass(frozen=True)
class StatedRow:
    """What the view said of a row, as `query --json` prints it, and what that counted; no row if there was none."""

    row: Mapping[str, Any] | None
    basis: Basis


@dataclass(frozen=True)
class AlertRow:
    """A row at a step: whether it meets the condition, and whether it meets that which ends it.

    `start` and `end` are its window's, in microseconds since 1970, None without one; `label` is the window's at the last step.
    """

    place: Place
    row: Mapping[str, Any]
    text: str
    start: int | None
    end: int | None
    label: str
    meets: bool
    clears: bool


@dataclass(frozen=True)
class Edge:
    """One change of a row's alert; `of` is the id of the edge that raised it, and `since` its time. Quiet ones are not sent."""

    id: str
    of: str
    alert: str
    view: str
    kind: Kind
    because: Because
    text: str
    since: datetime
    at: datetime
    place: Mapping[str, Any]
    raised: StatedRow
    now: StatedRow
    quiet: bool = False


@dataclass(frozen=True)
class Episode:
    """A row that meets the condition, since when and why, and the edge that raised it; None while it waits.

    Nothing is sent of a `quiet` episode.
    """

    row: AlertRow
    since: datetime
    because: Because
    quiet: bool = False
    edge: Edge | None = None


Episodes = Mapping[Place, Episode]


@dataclass(frozen=True)
class AlertTerms:
    """When an alert raises: names, labels, and lengths of time.

    `label` gives the label of a row's window at a watermark.
    """

    alert: str
    view: str
    states: frozenset[str]
    hold: timedelta
    within: timedelta
    label: Callable[[AlertRow, int | None], str]


@dataclass(frozen=True)
class AlertStep:
    """The view at a step: rows that changed, and places without a row; `whole` if no other rows exist.

    `before` is what the step before counted, None if the alert then had another definition. Rows of the `first` step whose
    windows are final are raised quietly: they are history.
    """

    rows: Iterable[AlertRow]
    gone: Iterable[Place]
    before: Basis | None
    now: Basis
    at: datetime
    whole: bool = False
    first: bool = False


def advance(terms: AlertTerms, episodes: Episodes, step: AlertStep) -> tuple[dict[Place, Episode], tuple[Edge, ...]]:
    """The episodes after a step, and its edges in order."""
    after, edges, present = dict(episodes), [], set()
    for row in step.rows:
        present.add(row.place)
        episode = after.get(row.place)
        if episode is None or episode.edge is None:
            if not row.meets:
                after.pop(row.place, None)
            elif episode is None:
                earlier = replace(row, label=terms.label(row, step.before.watermark if step.before else None))
                quiet = step.first and row.label == "final"
                after[row.place] = Episode(row, step.at, _because(terms, earlier, step), quiet)
            else:
                after[row.place] = replace(episode, row=row)
        elif _ends(episode, row, step):
            edges.append(_end(terms, after.pop(row.place), row, step))
        else:
            after[row.place] = replace(episode, row=row)
    for place in [place for place in after if place not in present] if step.whole else step.gone:
        episode = after.pop(place, None)
        if episode is not None and episode.edge is not None:
            edges.append(_end(terms, episode, None, step))
    for place, episode in [*after.items()]:
        if _past(terms, episode.row, step.now):
            del after[place]
            if episode.edge is not None:
                edges.append(_end(terms, episode, episode.row, step))
            continue
        label = terms.label(episode.row, step.now.watermark)
        after[place] = labelled = replace(episode, row=replace(episode.row, label=label))
        if episode.edge is None and step.at - episode.since >= terms.hold and label in terms.states:
            stated = StatedRow(episode.row.row, step.now)
            edge = _edge(terms, episode, step, kind="raised", because=episode.because, now=stated)
            after[place] = replace(labelled, edge=edge)
            edges.append(edge)
    return after, tuple(edges)


def restatement(before: Basis | None, now: Basis) -> Because | None:
    """Why every value may have been restated between two steps; None if more of the log alone was counted."""
    if before is None or before.fingerprint != now.fingerprint:
        return "definition"
    start, end = (Position.from_json(basis.realtime) for basis in (before, now))
    return None if before.batch == now.batch and start.at_or_below(end) and start != end else "recompute"


def _ends(episode: Episode, row: AlertRow, step: AlertStep) -> bool:
    """Whether a raised row ends: it clears, or it met the condition until it was restated."""
    if row.meets:
        return False
    return row.clears or (episode.row.meets and restatement(step.before, step.now) is not None)


def _past(terms: AlertTerms, row: AlertRow, now: Basis) -> bool:
    """Whether a row's window ended too long ago for the alert, or has left the view."""
    if row.start is not None and now.kept_from is not None and row.start < now.kept_from:
        return True
    return row.end is not None and now.watermark is not None and row.end + terms.within // MICROSECOND <= now.watermark


def _because(terms: AlertTerms, row: AlertRow, step: AlertStep) -> Because:
    """Why a row has changed whose label was that of `row` at the step before."""
    if _past(terms, row, step.now):
        return "past"
    if step.first:
        return "events"
    return restatement(step.before, step.now) or ("late" if row.label == "final" else "events")


def _end(terms: AlertTerms, episode: Episode, row: AlertRow | None, step: AlertStep) -> Edge:
    """The edge of a raised row that ends; `row` is what it is now."""
    because = _because(terms, episode.row, step)
    kind: Kind = "cleared" if because in ("events", "past") else "corrected"
    now = StatedRow(None if row is None else row.row, step.now)
    return _edge(terms, episode if row is None else replace(episode, row=row), step, kind=kind, because=because, now=now)


def _edge(terms: AlertTerms, episode: Episode, step: AlertStep, *, kind: Kind, because: Because, now: StatedRow) -> Edge:
    row, basis, first = episode.row, now.basis, episode.edge
    of = first.id if first else ""
    # The time tells it from an edge of the same answers before the alert had another condition, and this one again.
    began = [utc_text(episode.since), basis.publication, basis.batch_version, basis.realtime, basis.watermark]
    parts = [terms.alert, kind, row.place, *began, of]
    number = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:_ID_DIGITS]
    return Edge(
        id=number,
        of=of or number,
        alert=terms.alert,
        view=terms.view,
        kind=kind,
        because=because,
        text=row.text,
        since=first.since if first else step.at,
        at=step.at,
        place=dict(row.place),
        raised=first.raised if first else now,
        now=now,
        quiet=episode.quiet,
    )
