"""Keeps a target equal to a view: its changes from the target's token on, or the difference to a snapshot without a token."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow.compute as pc

from tandem.ledger.delta.errors import Conflict
from tandem.ledger.log.positions import Position, must_await
from tandem.serving.connection import PublishedView
from tandem.serving.memory.changes_token import ChangesToken, TokenGone
from tandem.serving.memory.differences import identity
from tandem.serving.memory.store import Pinned
from tandem.serving.read.outcome import ReadFailed
from tandem.serving.read.provenance import Provenance
from tandem.serving.read.row_filter import RowsWanted, row_filter
from tandem.serving.sinks.log_messages import SinkMessage, messages, with_kinds, without_label
from tandem.serving.sinks.sink_token import Stamp
from tandem.serving.sinks.target import SinkRefused, Target, TargetLog
from tandem.views.errors import TandemError
from tandem.views.verify.compare import pairs

_AWAIT_S: Final = 60.0
"""Seconds for which a sink waits for answers that count what its target counts, before it reports that."""


@dataclass(frozen=True)
class SinkStep:
    """One step of a target: how many rows it wrote and deleted, and whether it compared the target with a snapshot."""

    rows: int
    gone: int
    token: str
    compared: bool = False


def follow(view: PublishedView, target: Target | TargetLog, wanted: RowsWanted) -> Iterator[SinkStep]:
    """Write every change until the connection is closed. Raises ReadFailed, BadSelection, Unreadable, Unwritable, SinkRefused."""
    return append(view, target, wanted) if isinstance(target, TargetLog) else keep_equal(view, target, wanted)


def keep_equal(view: PublishedView, target: Target, wanted: RowsWanted) -> Iterator[SinkStep]:
    """Write every change to a target that holds rows.

    The target is compared with a snapshot if its token has expired, is of another installation or of other rows, or if another
    program has written to it. A token that counts hot commits expires with the process that folded them; the snapshot then
    counts at least what the target counts.
    """
    # What others have written, such as a transaction that a kill cut off, makes no row of the target older.
    reached, token = token_in(target.newest()), _token_of(target.token(), wanted)
    while True:
        try:
            if token is None:
                await_answers(view, reached)
                step = reconcile(view, target, wanted)
                yield step
                token, reached = step.token, ChangesToken.parse(step.token)
            for change in view.changes(token, keys=wanted.keys, where=wanted.where):
                schema = change.rows.table.schema
                rows, gone = target.convert(without_label(change.rows.table)), target.convert(with_kinds(change.gone, schema))
                target.write(rows, gone, _stamp(change.token, wanted, change.provenance))
                reached = ChangesToken.parse(change.token)
                yield SinkStep(rows.num_rows, gone.num_rows, change.token)
        except (TokenGone, Conflict):
            token = None
        else:
            return


def await_answers(view: PublishedView, reached: ChangesToken | None) -> None:
    """Wait until answers count the hot commits that a target counts: rows there are never replaced by older ones.

    Raises ReadFailed if they do not in a minute, or if the connection is closed.
    """
    if reached is None or reached.hot is None:
        return
    store, (_, position) = view.connection.store, reached.hot
    pinned, deadline = view.connection.pinned(), store.recent.clock() + _AWAIT_S
    while must_await(position, end := _end(pinned, view.name)):
        left = deadline - store.recent.clock()
        newer = store.after(pinned, left) if left > 0 else None
        if newer is None:
            raise ReadFailed(
                f"the target counts the log up to {position}, from a hot tail that has ended, and answers of view {view.name!r} "
                f"only up to {end}; the sink continues once the speed layer has counted that far"
            )
        pinned = newer


def _end(pinned: Pinned, name: str) -> Position:
    view = pinned.view(name)
    return pinned.snapshot.tail(view).end


def append(view: PublishedView, log: TargetLog, wanted: RowsWanted) -> Iterator[SinkStep]:
    """Append messages of every change to a log.

    Without the token of the log's messages, outputs update and changes continue with a complete snapshot, and output append
    cannot continue: a row would be missing or sent again.
    """
    output = "changes" if wanted.output == "update" else wanted.output
    stored = log.token()
    token = _token_of(stored, wanted)
    while True:
        if token is None and stored is not None and wanted.output == "append":
            raise SinkRefused(
                f"the target has final rows of view {view.name!r}, and its token is lost, has expired, or is of other rows or of "
                "another meaning of the view; give the sink a new target, or delete this one"
            )
        compared = token is None
        try:
            for change in view.changes(token, keys=wanted.keys, where=wanted.where, output=output):
                sent = messages(change, wanted.output)
                log.append(sent, _stamp(change.token, wanted, change.provenance))
                rows = sum(message.key is not None for message in sent)
                gone = sum(message.kind in ("gone", "withdrawn") or _deletes(message) for message in sent)
                stored = token = change.token
                yield SinkStep(rows - gone, gone, token, compared)
                compared = False
        except TokenGone:
            token = None
        else:
            return


def reconcile(view: PublishedView, target: Target, wanted: RowsWanted) -> SinkStep:
    """Make the target equal to the view at one snapshot, in one step; if it has the same columns, by its differing rows alone."""
    now = view.now()
    if now.memory is None:
        raise ReadFailed(f"view {view.name!r} needs more memory than `serving.memory_mb` gives, so a sink cannot follow it")
    chosen = row_filter(now.view, wanted).rows(now.scan(wanted.keys).table)
    rows, group = target.convert(without_label(chosen)), identity(now.memory.answers.held.layout)
    token, stamp = now.token, _stamp(now.token, wanted, now.provenance)
    before = target.content(rows.schema, group)
    if before is None:
        target.replace(rows, group, stamp)
        return SinkStep(rows.num_rows, 0, token, compared=True)
    both = pairs(group, before, rows)
    was, is_ = both.there
    differs = pc.and_(is_, pc.invert(was))
    for name in rows.column_names:
        if name not in group:
            differs = pc.or_(differs, pc.and_(is_, both.unequal(name)))
    changed = both.sides[1].filter(differs)
    gone = both.sides[0].filter(pc.invert(is_)).select(group)
    target.write(changed, gone, stamp)
    return SinkStep(changed.num_rows, gone.num_rows, token, compared=True)


def token_of_target(target: Target | TargetLog) -> str | None:
    """The token of a view in a target."""
    return (target.token() or "").partition(" ")[0] or None


def token_in(stored: str | None) -> ChangesToken | None:
    """The token in a stored text, of whatever rows; None if it is not a token."""
    try:
        return None if stored is None else ChangesToken.parse(stored.partition(" ")[0])
    except TandemError:
        return None


def _deletes(message: SinkMessage) -> bool:
    return message.value is not None and message.value.get("op") == "d"


def _stamp(token: str, wanted: RowsWanted, provenance: Provenance) -> Stamp:
    """A token with the rows that it is of: a target of other rows is not continued."""
    return Stamp(_text(token, wanted), provenance.publication)


def _text(token: str, wanted: RowsWanted) -> str:
    rows = repr((sorted((name, repr(value)) for name, value in wanted.keys.items()), wanted.where, wanted.output))
    return f"{token} {hashlib.sha256(rows.encode()).hexdigest()[:16]}"


def _token_of(stored: str | None, wanted: RowsWanted) -> str | None:
    """The token of a stored text; None if it is not a token, or is of other rows."""
    token = (stored or "").partition(" ")[0]
    return token if token_in(stored) is not None and stored == _text(token, wanted) else None
