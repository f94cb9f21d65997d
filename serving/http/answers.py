"""Answers that are held: what one snapshot says to a question is worked out once, and stays as it is for whoever pages on.

Sketches that throw dice, and floats, are merged once per snapshot and view: of a view that has any, the answer to all is taken
and rows are picked from it. For one thread at a time.
"""

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ledger.gaps import touching
from ledger.positions import LOG_START
from ledger.tables import Tables
from serving.http.question import Question
from serving.outcome import Failed, ReadFailed, Value
from serving.provenance import Provenance
from serving.reader import Reader
from serving.selection import Selection
from serving.snapshot import Snapshot
from views.view import View, answer_schema, approximations

_PAST: Final = 4
"""How many publications of the past have a reader each."""
_OWN_BYTES: Final = 4096
"""What an answer takes beside its rows, about."""


class Gone(ReadFailed):
    """The snapshot of a cursor is not held any more, or a publication is not kept."""


@dataclass(frozen=True)
class Answer:
    """All rows that one snapshot has for a question, in order.

    `digest` names the question and `stand` the snapshot, as far as the view's source goes. `tag` is another one wherever the
    rows or the provenance might be other bytes.
    """

    view: View
    table: pa.Table = field(repr=False)
    provenance: Provenance
    digest: str
    stand: str
    tag: str
    dice: str = ""


@dataclass
class Answers:
    """The answers of one project's tables; `budget` bounds the bytes of those that are held, the latest asked stay."""

    tables: Tables
    budget: int
    live: Reader = field(init=False, repr=False)
    _past: OrderedDict[int, Reader] = field(default_factory=OrderedDict, init=False, repr=False)
    _held: OrderedDict[tuple[str, str], Answer] = field(default_factory=OrderedDict, init=False, repr=False)
    _bytes: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        self.live = Reader(self.tables)

    def views(self, publication: int | None = None) -> Mapping[str, View]:
        """The views of the live publication, or of one of the past. Raises Gone if that is not kept, ReadFailed, Unreadable."""
        return self._reader(publication).project().views

    def answer(self, question: Question, *, stand: str | None = None) -> Answer:
        """What is known at the pinned snapshot, or at the one that `stand` names. Raises ReadFailed; Gone for the latter."""
        reader = self._reader(question.publication)
        source = question.view.source.name
        now = _stand(reader.snapshot(), source)
        if held := self._found(question, stand or now):
            return held
        if stand not in (None, now):
            raise Gone("the snapshot of this cursor is not held any more; ask again without the cursor")
        if question != question.whole and approximations(question.view):
            whole = self.answer(question.whole)
            rows, provenance, now, dice = _picked(question, whole.table), whole.provenance, whole.stand, whole.dice
        else:
            rows, provenance = _asked(reader, question)
            now = _stand(reader.snapshot(), source)  # a file that was gone may have made the reader go on
            dice = secrets.token_hex(8) if approximations(question.view) else ""
        if stand not in (None, now):
            raise Gone("the snapshot of this cursor is not held any more; ask again without the cursor")
        tag = sha256(f"{question.digest}/{now}/{dice}".encode()).hexdigest()[:24]
        return self._hold(question, Answer(question.view, _in_order(question, rows), provenance, question.digest, now, tag, dice))

    def _reader(self, publication: int | None) -> Reader:
        if publication is None:
            return self.live
        if publication in self._past:
            self._past.move_to_end(publication)
            return self._past[publication]
        reader = Reader(self.tables, publication)
        if isinstance(found := reader.refresh(), Failed):
            raise Gone(found.reason)
        self._past[publication] = reader
        while len(self._past) > _PAST:
            self._past.popitem(last=False)
        return reader

    def _found(self, question: Question, stand: str) -> Answer | None:
        place = (question.digest, stand)
        if place in self._held:
            self._held.move_to_end(place)
        return self._held.get(place)

    def _hold(self, question: Question, answer: Answer) -> Answer:
        place = (question.digest, answer.stand)
        if replaced := self._held.pop(place, None):
            self._bytes -= _size(replaced)
        self._held[place] = answer
        self._bytes += _size(answer)
        while self._bytes > self.budget and len(self._held) > 1:
            _, gone = self._held.popitem(last=False)
            self._bytes -= _size(gone)
        return answer


def _asked(reader: Reader, question: Question) -> tuple[pa.Table, Provenance]:
    found = reader.answer(question.view.name, keys=question.keys, between=question.between, layer=question.layer)
    if isinstance(found, Failed):
        raise ReadFailed(found.reason)
    nothing = pa.Table.from_batches([], answer_schema(found.view))
    rows = found.table if isinstance(found, Value) and not question.never else nothing
    return rows, found.provenance


def _picked(question: Question, rows: pa.Table) -> pa.Table:
    """The rows of an answer to all that a question asks for."""
    return rows.slice(0, 0) if question.never else Selection(question.keys, *question.between, timedelta(0)).filter(rows)


def _in_order(question: Question, rows: pa.Table) -> pa.Table:
    """Rows that come by window and keys, in the order that is asked for; equal ones stay as they are, null comes last."""
    if not question.order:
        return rows
    keys = [(name, "ascending" if ascends else "descending") for name, ascends in question.order]
    return rows.take(pc.sort_indices(rows, sort_keys=keys))


def _size(answer: Answer) -> int:
    return int(answer.table.nbytes) + _OWN_BYTES


def _stand(snapshot: Snapshot, source: str) -> str:
    """A text that is another one wherever the snapshot says something else of a source."""
    publication, tail = snapshot.publication, snapshot.tails[source]
    parts = [
        publication.number,
        publication.at.isoformat(),
        publication.release,
        tail.end.to_json(),
        tail.problem,
        str(tail.newest),
        [gap.name for gap in touching(snapshot.gaps, source, LOG_START, tail.end)],
    ]
    return sha256(repr(parts).encode()).hexdigest()[:16]
