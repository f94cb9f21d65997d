"""Answers to questions about views, cached for each question and snapshot: a client that pages through an answer gets rows of one
computation.

Floating-point totals and randomised sketches may differ from merge to merge, so each view is merged once per snapshot. A view in
memory is merged already. For a small view that is read from its files and has such measures, the whole answer is computed once
and rows are picked from it. For one thread at a time.
"""

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Final
from weakref import WeakKeyDictionary

import msgspec
import pyarrow as pa

from tandem.ledger.delta.errors import Unreadable
from tandem.serving.connection import AtOneSnapshot
from tandem.serving.http.answer_cache.chunks import CHUNK_ROWS, chunk, in_order
from tandem.serving.http.answer_cache.question import Question
from tandem.serving.http.answer_cache.rebuilt_snapshot import SnapshotBasis, basis_of, rebuild
from tandem.serving.http.protocol import formats
from tandem.serving.memory.store import SHARE_OF_READS, InMemory, Pinned, Store
from tandem.serving.read.merged_layers import Keep, Reader
from tandem.serving.read.outcome import Failed, Outcome, ReadFailed, given
from tandem.serving.read.provenance import Provenance
from tandem.serving.read.selection import Among
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.read.states import ReadCache
from tandem.serving.read.touched_rows import any_touched, split
from tandem.serving.view_at import ViewAt, selected
from tandem.views.composite.table import looked_up
from tandem.views.exactness import of_measures
from tandem.views.view import View, approximations

_PAST: Final = 4
"""Past publications that keep a reader."""
_OWN_BYTES: Final = 4096
"""About the bytes of an answer besides its rows."""


class Gone(ReadFailed, code="snapshot-expired"):
    """The snapshot of a cursor has expired, or a publication is not retained."""


@dataclass(frozen=True)
class CachedAnswer:
    """Rows of a question at one snapshot, in order, with which of them are touched where that makes a difference.

    They are all `total` rows of an answer from memory, and of one from files those of a chunk, from the row numbered `first` on.

    * `digest`: names the question; `stand`: names the snapshot of the view.
    * `tag`: differs wherever the bytes of rows or provenance may differ.
    * `dice`: differs between computations whose estimates may differ.
    * `basis`: from what another server builds the snapshot; None if none can.
    """

    view: View
    table: pa.Table = field(repr=False)
    provenance: Provenance
    digest: str
    stand: str
    tag: str
    dice: str = ""
    basis: SnapshotBasis | None = None
    first: int = 0
    total: int = 0

    def reaches(self, row: int) -> bool:
        """Whether the row of this number would be among its rows."""
        end = self.first + int(self.table.num_rows)
        return self.first <= row < end or end == self.total


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
    _held: OrderedDict[tuple[str, str, int], CachedAnswer] = field(default_factory=OrderedDict, init=False, repr=False)
    _bytes: int = field(default=0, init=False, repr=False)
    _reads: ReadCache = field(init=False, repr=False)
    _common: WeakKeyDictionary[InMemory, Common] = field(default_factory=WeakKeyDictionary, init=False, repr=False)

    def __post_init__(self) -> None:
        self._reads = ReadCache(self.store.memory // SHARE_OF_READS)

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

    def answer(
        self, question: Question, *, stand: str | None = None, after: int = 0, basis: SnapshotBasis | None = None
    ) -> CachedAnswer:
        """The answer with the rows that follow `after` others, at the pinned snapshot, or at the snapshot that `stand` names.

        That is built from `basis` if need be. Raises ReadFailed; Gone if a snapshot other than the pinned one cannot be built.
        """
        answer = self._found(question, stand or self._stand(question), after)
        while answer is None or not answer.reaches(after):
            before, wanted = answer, stand if answer is None else answer.stand
            pinned = wanted in (None, self._stand(question))
            answer = self._worked_out(question, before) if pinned else self._earlier(question, wanted, basis, before)
            if wanted not in (None, answer.stand):  # a deleted file may have moved the pinned snapshot
                answer = self._earlier(question, wanted, basis, before)
            self._hold(question, answer)
        return answer

    def of_keys(self, question: Question, keys: pa.Table) -> CachedAnswer:
        """The answer, restricted to rows whose keys are among `keys`, a table of the view's keys."""
        if question.layer == "merged" and question.publication is None and question.selection.at is None:
            at = self._view(question)
            if at.memory is not None:
                found = at.lookup(keys.select([*question.view.keys]).to_pylist())
                dice = self._dice_of(at.memory, question)
                return self._answered(question, _picked(question, found.with_touched()), found.provenance, dice)
        columns = {name: keys.schema.field(name).type for name in question.view.keys}
        every = frozenset(zip(*(keys[name].to_pylist() for name in columns), strict=True))
        return self._worked_out(replace(question, selection=replace(question.selection, among=Among(columns, every))), None)

    def _worked_out(self, question: Question, before: CachedAnswer | None) -> CachedAnswer:
        """The answer, or of one from files the chunk after another."""
        if question.publication is None and question.layer == "merged":
            at = self._view(question)
            if at.memory is not None:
                found = selected(at, question.selection)
                return self._answered(question, *_rows_of(found), self._dice_of(at.memory, question))
        if question != question.whole and approximations(question.view) and self._is_small(question):
            whole = self.answer(question.whole)
            if len(whole.table) == whole.total:
                return self._answered(question, _picked(question, whole.table), whole.provenance, whole.dice)
        return self._from_files(question, before)

    def _earlier(
        self, question: Question, stand: str | None, basis: SnapshotBasis | None, before: CachedAnswer | None
    ) -> CachedAnswer:
        """The same at another snapshot than the pinned one, from the tables, polled if need be. Raises Gone, Unreadable."""
        past = None if basis is None else rebuild(self.store.tables, self.live().snapshot, question.view, basis)
        if past is None and basis is not None:
            self.store.refresh()
            self.pin()
            past = rebuild(self.store.tables, self.live().snapshot, question.view, basis)
        if past is None or _stand(past, question.view) != stand:
            raise Gone("the snapshot of this cursor has expired; send the request again without the cursor")
        return self._from_files(question, before, past)

    def _is_small(self, question: Question) -> bool:
        """Whether the answer to all rows is about a chunk at most."""
        return self._snapshot(question).batch(question.view).rows <= CHUNK_ROWS

    def _from_files(self, question: Question, before: CachedAnswer | None, at: Snapshot | None = None) -> CachedAnswer:
        """The chunk of rows after another, at a snapshot, that of the question if none is given.

        Rows of a look-up are all in one, and so are rows in the order of estimates: by those of another merge a row could be in
        two chunks or in none.
        """
        inexact = of_measures(question.view) if approximations(question.view) else {}
        undivided = question.selection.among is not None or any(name in inexact for name, _ in question.order)
        boundary = None if before is None else before.table.slice(len(before.table) - 1)
        keep = None if undivided else partial(chunk, question.view, question.order, boundary)
        limit = CHUNK_ROWS if boundary is None and not question.order and not undivided else None
        outcome = self._asked(question, limit, keep, at)
        answer = self._answered(question, *_rows_of(outcome), secrets.token_hex(8) if inexact else "", at)
        if before is None:
            return replace(answer, total=given(outcome).total)
        # Its estimates are of another merge than those before, so its tag is another. Pages go on: each row is in one chunk.
        first = before.first + len(before.table)
        return replace(answer, dice=before.dice, first=first, total=given(outcome).total)

    def _answered(
        self, question: Question, rows: pa.Table, provenance: Provenance, dice: str, at: Snapshot | None = None
    ) -> CachedAnswer:
        """The answer at a snapshot, that of the question if none is given."""
        at = at or self._snapshot(question)
        now, told = _stand(at, question.view), provenance.of(touched=any_touched(split(rows)[1]))
        return CachedAnswer(
            question.view,
            in_order(question.order, rows),
            told,
            question.digest,
            now,
            _tag(question.digest, now, dice),
            dice,
            basis=basis_of(at, question.view) if question.publication is None else None,
            total=rows.num_rows,
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

    def _asked(self, question: Question, limit: int | None, keep: Keep | None, at: Snapshot | None) -> Outcome:
        """Rows from the view's files, of the first up to a limit those to be kept.

        Raises ReadFailed; at a snapshot Unreadable in place of it.
        """
        view = question.view
        if question.publication is not None:
            reader = self._reader(question.publication)
            return reader.select(view.name, lambda _: question.selection, question.layer, limit, keep=keep)
        ask = partial(
            self.store.from_files, view=view, selection=question.selection, layer=question.layer, limit=limit, keep=keep
        )
        if at is not None:
            return ask(at)
        try:
            return ask(self.live().snapshot)
        except Unreadable:
            self._go_on(question)
        try:
            return ask(self.live().snapshot)
        except Unreadable as error:
            raise ReadFailed(str(error)) from error

    def _stand(self, question: Question) -> str:
        return _stand(self._snapshot(question), question.view)

    def _snapshot(self, question: Question) -> Snapshot:
        number = question.publication
        return self.live().snapshot if number is None else self._reader(number).snapshot()

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
        reader = Reader(self.store.tables, publication, cache=self._reads)
        if isinstance(found := reader.refresh(), Failed):
            raise Gone(found.reason)
        self._past[publication] = reader
        while len(self._past) > _PAST:
            self._past.popitem(last=False)
        return reader

    def _found(self, question: Question, stand: str, row: int) -> CachedAnswer | None:
        """The cached answer that has a row, else the last one before it; None without one."""
        for first in (0, *range(row - row % CHUNK_ROWS, 0, -CHUNK_ROWS)):
            place = (question.digest, stand, first)
            if place in self._held and (first or row < CHUNK_ROWS or self._held[place].reaches(row)):
                self._held.move_to_end(place)
                return self._held[place]
        return self._held.get((question.digest, stand, 0))

    def _hold(self, question: Question, answer: CachedAnswer) -> CachedAnswer:
        place = (question.digest, answer.stand, answer.first)
        if replaced := self._held.pop(place, None):
            self._bytes -= _size(replaced)
        self._held[place] = answer
        self._bytes += _size(answer)
        while self._bytes > self.budget and len(self._held) > 1:
            _, gone = self._held.popitem(last=False)
            self._bytes -= _size(gone)
        return answer


def _rows_of(found: Outcome) -> tuple[pa.Table, Provenance]:
    if isinstance(found, Failed):
        raise ReadFailed(found.reason)
    rows = found.with_touched()
    return rows, found.provenance


def _picked(question: Question, rows: pa.Table) -> pa.Table:
    """The rows that a question selects from the answer to all rows."""
    return replace(question.selection, reach=timedelta(0)).filter(rows)


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
