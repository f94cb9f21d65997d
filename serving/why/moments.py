"""Moments between which a row is compared: a publication, a receipt, a position, or now."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import NoRelease, Releases
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import ReadFailed, given
from tandem.serving.read.provenance import Layer
from tandem.serving.read.selection import BadSelection, Selection, parse_position, parse_time
from tandem.serving.read.snapshot import batch_of
from tandem.serving.read.snapshot_follower import live_at
from tandem.serving.why.receipt import Receipt
from tandem.views.composite.rollup import root
from tandem.views.composite.table import looked_up
from tandem.views.errors import DefinitionError, listed
from tandem.views.project.project import Project, load_files
from tandem.views.source.united_source import names_of
from tandem.views.view import View


@dataclass(frozen=True)
class MomentOfLog:
    """What was counted then, and by which definitions.

    Args:
        label: how a person named it.
        view: the view as the release of the moment defines it, in its `project`.
        cuts: by source, tables of look-ups among them: the cut.
        ends: likewise the position up to which the log was counted.
        rows: what was answered, if that is still known; of positions and receipts it is what the log makes.
        gaps: the names of the gaps that its publication accepted.
        kept_from: the start of the first window that had stayed, of a view that keeps some.
    """

    label: str
    view: View
    project: Project = field(repr=False, hash=False)
    cuts: Mapping[str, Position] = field(hash=False)
    ends: Mapping[str, Position] = field(hash=False)
    rows: pa.Table | None = field(default=None, repr=False, hash=False)
    gaps: tuple[str, ...] = ()
    kept_from: datetime | None = None


_DIGITS: Final = 10
"""The most digits of the number of a publication."""


@dataclass(frozen=True)
class Moments:
    """Finds the moments of a view, with the rows that `chosen` selects; with `files` a moment may be the file of a receipt."""

    tables: Tables
    view: str
    chosen: Callable[[View], Selection] = lambda _: Selection()
    files: bool = True

    def find(self, text: str) -> MomentOfLog:
        """A moment from `now`, the number of a publication, a time, a position or a receipt as JSON, or the file of a receipt.

        Raises BadSelection, ReadFailed, InvalidReceipt, Unreadable.
        """
        if text == "now":
            return self._now()
        if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
            return self._publication(int(text), f"publication {text}")
        if text.startswith("{"):
            return self._receipt(Receipt.parse(text.encode(), "the receipt")) if '"receipt"' in text else self._position(text)
        if self.files and _names_a_file(text):
            return self._receipt(Receipt.parse(Path(text).read_bytes(), text))
        try:
            number = live_at(self.tables, parse_time(text))
        except BadSelection as error:
            receipt = "the file of a receipt" if self.files else "a receipt"
            raise BadSelection(
                f"{text!r} is not a moment: {error}; write now, a publication's number, a time, a position as JSON, or {receipt}"
            ) from error
        return self._publication(number, f"publication {number} of {text}")

    def _now(self) -> MomentOfLog:
        reader = Reader(self.tables)
        view, snapshot = reader.view(self.view), reader.snapshot()
        tails = snapshot.of(root(view)).tails
        names = _sources(view)
        return MomentOfLog(
            "now",
            view,
            reader.project(),
            {name: tails[name].cut for name in names},
            {name: tails[name].end for name in names},
            self._rows(reader, "merged"),
            snapshot.publication.gaps,
            batch_of(snapshot.publication, view).first_window,
        )

    def _publication(self, number: int, label: str) -> MomentOfLog:
        publication = self._load(number)
        view, project = self._definitions(publication.release)
        cuts = {name: publication.cut(name) for name in _sources(view)}
        try:
            rows = self._rows(Reader(self.tables, number), "batch")
        except (ReadFailed, BadSelection):  # not retained, so that the events are read from the log; or with other keys
            rows = None
        kept_from = batch_of(publication, view).first_window
        return MomentOfLog(label, view, project, cuts, cuts, rows, publication.gaps, kept_from)

    def _receipt(self, receipt: Receipt) -> MomentOfLog:
        if receipt.view != self.view:
            raise BadSelection(f"the receipt is of view {receipt.view!r}, not of {self.view!r}")
        view, project = self._definitions(receipt.release)
        publication = self._load(receipt.publication)
        names = _sources(view)
        return MomentOfLog(
            f"the receipt of publication {receipt.publication}",
            view,
            project,
            {name: receipt.end(name, at_the_cut=True) for name in names},
            {name: receipt.end(name) for name in names},
            None,
            publication.gaps,
            None if receipt.kept_from is None else parse_time(receipt.kept_from),
        )

    def _position(self, text: str) -> MomentOfLog:
        reader = Reader(self.tables)
        view, live = reader.view(self.view), reader.snapshot().publication
        position = parse_position(text)
        names = _sources(view)
        every = {name: {topic for topic, _ in reader.snapshot().of(root(view)).tails[name].end} for name in names}
        topics = set[str]().union(*every.values())
        if other := next((topic for topic, _ in position if topic not in topics), None):
            raise BadSelection(f"no source of view {view.name!r} has the topic {other!r}; topics: {listed(other, topics)}")
        ends = {
            name: Position.of({place: offset for place, offset in position.items() if place[0] in every[name]}) for name in names
        }
        return MomentOfLog(f"position {json.dumps(position.to_json())}", view, reader.project(), ends, ends, None, live.gaps)

    def _rows(self, reader: Reader, layer: Layer) -> pa.Table:
        return given(reader.select(self.view, self.chosen, layer)).table

    def _load(self, number: int) -> Publication:
        every = {each.number: each for each in Publications(self.tables).history()}
        if number not in every:
            raise BadSelection(f"publication {number} does not exist; publications: {listed(str(number), map(str, every))}")
        return every[number]

    def _definitions(self, release: int) -> tuple[View, Project]:
        try:
            project = load_files(Releases(self.tables).load(release).files)
        except (NoRelease, DefinitionError) as error:
            raise ReadFailed(f"the definitions of release {release} are gone: {error}") from error
        if self.view not in project.every_view:
            raise BadSelection(f"release {release} has no view {self.view!r}; views: {listed(self.view, project.every_view)}")
        return project.every_view[self.view], project


def _names_a_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:  # too long for a name
        return False


def _sources(view: View) -> list[str]:
    """The sources of a view, and those of the tables in which it looks up."""
    first = root(view)
    tables = [table.source.name for table in looked_up(first).values()]
    return [*dict.fromkeys((*names_of(first.source.name), *tables))]
