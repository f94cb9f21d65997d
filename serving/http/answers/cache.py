"""Questions to a view, and their answers, cached for each question and snapshot: a client that pages through an answer gets rows
of one computation.

Floating-point totals and randomised sketches may differ from merge to merge, so each view is merged once per snapshot. A view in
memory is merged already. For a view that is read from its files and has such measures, the whole answer is computed once and
rows are picked from it. For one thread at a time.
"""

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tandem.ledger.delta.errors import Unreadable
from tandem.serving.connection import AtOneSnapshot
from tandem.serving.http.protocol import formats
from tandem.serving.memory.store import InMemory, Pinned, Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Failed, Outcome, ReadFailed
from tandem.serving.read.provenance import Layer, Provenance
from tandem.serving.read.selection import ALWAYS, Selection, select
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.read.touched_rows import any_touched, split
from tandem.serving.view_at import ViewAt, selected
from tandem.views.table import looked_up
from tandem.views.view import View, approximations

Order = tuple[tuple[str, bool], ...]
"""Columns of an answer, each with whether it ascends."""


@dataclass(frozen=True)
class Question:
    """The rows of a view that a `selection` takes, from a `layer` of a `publication`, the live one if that is None.

    Rows are sorted by `order`, ties by window start, then keys.
    """

    view: View
    selection: Selection
    layer: Layer = "merged"
    publication: int | None = None
    order: Order = ()

    @property
    def whole(self) -> "Question":
        """The same question about all rows of the view."""
        return replace(self, selection=select(self.view, {}, ALWAYS), order=())

    @property
    def digest(self) -> str:
        """A text that equal questions share and different ones do not."""
        asked = self.selection
        keys = {name: value.as_py() for name, value in asked.keys.items()}
        return digest_of(
            self.view.name,
            keys,
            (asked.start, asked.end) if asked.at is None else (asked.start, asked.end, asked.at),
            layer=self.layer,
            publication=self.publication,
            order=self.order,
        )


def digest_of(
    view: str,
    keys: Mapping[str, Any],
    between: tuple[datetime | None, ...],
    *,
    layer: Layer = "merged",
    publication: int | None = None,
    order: Order = (),
) -> str:
    """The digest of the question that has these parts; the values of keys are as Arrow returns them in Python."""
    named = {name: [value is not None, str(value)] for name, value in sorted(keys.items())}
    bounds = [None if bound is None else bound.isoformat() for bound in between]
    return sha256(msgspec.json.encode([view, named, bounds, layer, publication, order])).hexdigest()[:24]


def outside(keys: Mapping[str, pa.Scalar], bound: Mapping[str, pa.Scalar]) -> bool:
    """Whether no row with these keys is visible to a principal that is bound to values of keys."""
    return any(name in keys and not keys[name].equals(value) for name, value in bound.items())


_PAST: Final = 4
"""Past publications that keep a reader."""
_OWN_BYTES: Final = 4096
"""About the bytes of an answer besides its rows."""


class Gone(ReadFailed, code="snapshot-expired"):
    """The snapshot of a cursor has expired, or a publication is not retained."""


@dataclass(frozen=True)
class CachedAnswer:
    """All rows of a question at one snapshot, in order, with which of them are touched where that makes a difference.

    * `digest`: names the question; `stand`: names the snapshot of the view.
    * `tag`: differs wherever the bytes of rows or provenance may differ.
    * `dice`: differs between computations whose estimates may differ.
    """

    view: View
    table: pa.Table = field(repr=False)
    provenance: Provenance
    digest: str
    stand: str
    tag: str
    dice: str = ""


@dataclass(frozen=True)
class Common:
    """The part that all answers from one view in memory share.

    `dice` differs between computations whose estimates may differ, because a view may be evicted and loaded again; it is empty
    without estimates.
    """

    provenance: Provenance
    stand: str
    dice: str
    _told: dict[tuple[bool, bool], msgspec.Raw] = field(default_factory=dict, init=False, repr=False, hash=False)

    def tag(self, question: str) -> str:
        """The tag of the answer to the question with this digest."""
        return _tag(question, self.stand, self.dice)

    def told(self, *, bound: bool, touched: bool) -> msgspec.Raw:
        """The provenance as JSON; `touched` says whether realtime states are part of the rows."""
        if (known := self._told.get((bound, touched))) is None:
            told = formats.provenance(self.provenance.of(touched=touched), bound=bound)
            known = self._told[bound, touched] = msgspec.Raw(msgspec.json.encode(told))
        return known


@dataclass
class AnswerCache:
    """The answers of one project, those of the live publication from memory where they fit.

    `budget` bounds the bytes of the cached answers; the least recently used are evicted. Between one `pin` and the next, live
    answers come from one snapshot.
    """

    store: Store
    budget: int
    _pinned: Pinned | ReadFailed = field(
        default_factory=lambda: ReadFailed("the server has not read the tables yet; try again"), init=False, repr=False
    )
    _past: OrderedDict[int, Reader] = field(default_factory=OrderedDict, init=False, repr=False)
    _held: OrderedDict[tuple[str, str], CachedAnswer] = field(default_factory=OrderedDict, init=False, repr=False)
    _bytes: int = field(default=0, init=False, repr=False)
    _common: WeakKeyDictionary[InMemory, Common] = field(default_factory=WeakKeyDictionary, init=False, repr=False)

    def pin(self) -> None:
        """Pin the newest snapshot."""
        try:
            self._pinned = self.store.pinned()
        except ReadFailed as error:
            self._pinned = error

    def live(self) -> Pinned:
        """The pinned snapshot. Raises ReadFailed."""
        if isinstance(self._pinned, ReadFailed):
            raise self._pinned
        return self._pinned

    def views(self, publication: int | None = None) -> Mapping[str, View]:
        """The views of the live publication, or of a past one. Raises Gone if that is not retained, ReadFailed, Unreadable."""
        return (self.live().project if publication is None else self._reader(publication).project()).every_view

    def answer(self, question: Question, *, stand: str | None = None) -> CachedAnswer:
        """The answer at the pinned snapshot, or at the snapshot that `stand` names. Raises ReadFailed; Gone for the latter."""
        now = self._stand(question)
        if held := self._found(question, stand or now):
            return held
        _refuse_other(stand, now)
        found = self._worked_out(question)
        _refuse_other(stand, found.stand)  # a deleted file may have moved the pinned snapshot
        return self._hold(question, found)

    def of_keys(self, question: Question, keys: pa.Table) -> CachedAnswer:
        """The answer, restricted to rows whose keys are among `keys`, a table of the view's keys."""
        if question.layer == "merged" and question.publication is None:
            at = self._view(question)
            if at.memory is not None:
                found = at.lookup(keys.select([*question.view.keys]).to_pylist())
                dice = self._dice_of(at.memory, question)
                return self._answered(question, _picked(question, found.with_touched()), found.provenance, dice)
        return self.answer(question)

    def _worked_out(self, question: Question) -> CachedAnswer:
        if question.publication is None and question.layer == "merged":
            at = self._view(question)
            if at.memory is not None:
                found = selected(at, question.selection)
                return self._answered(question, *_rows_of(found), self._dice_of(at.memory, question))
        if question != question.whole and approximations(question.view):
            whole = self.answer(question.whole)
            return self._answered(question, _picked(question, whole.table), whole.provenance, whole.dice)
        rows, provenance = self._asked(question)
        return self._answered(question, rows, provenance, secrets.token_hex(8) if approximations(question.view) else "")

    def _answered(self, question: Question, rows: pa.Table, provenance: Provenance, dice: str) -> CachedAnswer:
        now, told = self._stand(question), provenance.of(touched=any_touched(split(rows)[1]))
        return CachedAnswer(
            question.view, _in_order(question, rows), told, question.digest, now, _tag(question.digest, now, dice), dice
        )

    def _view(self, question: Question) -> ViewAt:
        """The live view at the pinned snapshot, or at a newer one if the pinned one's files were deleted. Raises ReadFailed."""
        name = question.view.name
        try:
            return AtOneSnapshot(self.store, self.live()).view(name)
        except Unreadable:
            self._go_on(question)
        try:
            return AtOneSnapshot(self.store, self.live()).view(name)
        except Unreadable as error:
            raise ReadFailed(str(error)) from error

    def _go_on(self, question: Question) -> None:
        """Pin a newer snapshot, whose files may exist. Raises ReadFailed if the view has another meaning there."""
        self.store.refresh()
        self.pin()
        if self.views().get(question.view.name) != question.view:
            raise ReadFailed(f"view {question.view.name!r} has a new publication; send the request again")

    def _asked(self, question: Question) -> tuple[pa.Table, Provenance]:
        """The rows from the view's files. Raises ReadFailed."""
        view = question.view
        if question.publication is not None:
            reader = self._reader(question.publication)
            return _rows_of(reader.select(view.name, lambda _: question.selection, question.layer))
        try:
            found = self.store.from_files(self.live(), view, question.selection, question.layer, None)
        except Unreadable:
            self._go_on(question)
            try:
                found = self.store.from_files(self.live(), view, question.selection, question.layer, None)
            except Unreadable as error:
                raise ReadFailed(str(error)) from error
        return _rows_of(found)

    def _stand(self, question: Question) -> str:
        number = question.publication
        snapshot = self.live().snapshot if number is None else self._reader(number).snapshot()
        return _stand(snapshot, question.view)

    def common(self, pinned: Pinned, view: View, memory: InMemory) -> Common:
        """The part that the answers from `memory` at a snapshot share; for any thread."""
        if (known := self._common.get(memory)) is not None:
            return known
        dice = secrets.token_hex(8) if approximations(view) else ""
        made = Common(memory.provenance, _stand(pinned.snapshot, view), dice)
        return self._common.setdefault(memory, made)

    def _dice_of(self, memory: InMemory, question: Question) -> str:
        return self.common(self.live(), question.view, memory).dice

    def _reader(self, publication: int) -> Reader:
        if publication in self._past:
            self._past.move_to_end(publication)
            return self._past[publication]
        reader = Reader(self.store.tables, publication)
        if isinstance(found := reader.refresh(), Failed):
            raise Gone(found.reason)
        self._past[publication] = reader
        while len(self._past) > _PAST:
            self._past.popitem(last=False)
        return reader

    def _found(self, question: Question, stand: str) -> CachedAnswer | None:
        place = (question.digest, stand)
        if place in self._held:
            self._held.move_to_end(place)
        return self._held.get(place)

    def _hold(self, question: Question, answer: CachedAnswer) -> CachedAnswer:
        place = (question.digest, answer.stand)
        if replaced := self._held.pop(place, None):
            self._bytes -= _size(replaced)
        self._held[place] = answer
        self._bytes += _size(answer)
        while self._bytes > self.budget and len(self._held) > 1:
            _, gone = self._held.popitem(last=False)
            self._bytes -= _size(gone)
        return answer


def _refuse_other(stand: str | None, now: str) -> None:
    """Raise Gone if another snapshot than the current one is requested."""
    if stand not in (None, now):
        raise Gone("the snapshot of this cursor has expired; send the request again without the cursor")


def _rows_of(found: Outcome) -> tuple[pa.Table, Provenance]:
    if isinstance(found, Failed):
        raise ReadFailed(found.reason)
    rows = found.with_touched()
    return rows, found.provenance


def _picked(question: Question, rows: pa.Table) -> pa.Table:
    """The rows that a question selects from the answer to all rows."""
    return replace(question.selection, reach=timedelta(0)).filter(rows)


def _in_order(question: Question, rows: pa.Table) -> pa.Table:
    """Rows, which come by window and keys, in the requested order: the sort is stable, null comes last."""
    if not question.order:
        return rows
    keys = [(name, "ascending" if ascends else "descending") for name, ascends in question.order]
    return rows.take(pc.sort_indices(rows, sort_keys=keys))


def _tag(question: str, stand: str, dice: str) -> str:
    return sha256(f"{question}/{stand}/{dice}".encode()).hexdigest()[:24]


def _size(answer: CachedAnswer) -> int:
    return int(answer.table.nbytes) + _OWN_BYTES


def _stand(snapshot: Snapshot, view: View) -> str:
    """A text that differs wherever the snapshot's answers of a view may differ."""
    publication, snapshot = snapshot.publication, snapshot.of(view)
    tail = snapshot.tail(view)
    parts = [
        publication.number,
        publication.at.isoformat(),
        publication.release,
        snapshot.batch(view).version,  # a release that is not live may be built again without a publication
        snapshot.live,
        tail.cut.to_json(),
        tail.end.to_json(),
        tail.committed.to_json(),
        tail.hot[0].epoch if tail.hot else None,  # labels depend on the folds of one process
        tail.problem,
        str(snapshot.newest(view.source.name, layer="speed")),
        [gap.name for gap in snapshot.touching(view)],
        [snapshot.tails[table.source.name].committed.to_json() for table in looked_up(view).values()],
    ]
    return sha256(repr(parts).encode()).hexdigest()[:16]
