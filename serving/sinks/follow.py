"""Keeps a target equal to a view: its changes from the target's token on, or the difference to a snapshot where there is none."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tandem.ledger.delta.errors import Conflict
from tandem.serving.changes import ChangesToken, TokenGone
from tandem.serving.connection import PublishedView
from tandem.serving.memory.differences import identity
from tandem.serving.read.outcome import ReadFailed
from tandem.serving.read.row_filter import RowsWanted, row_filter
from tandem.serving.sinks.target import Target
from tandem.views.errors import TandemError
from tandem.views.verify.compare import pairs
from tandem.views.windows.placement import WINDOW_STATE


@dataclass(frozen=True)
class SinkStep:
    """One step of a target: how many rows it wrote and deleted, and whether it compared the target with a snapshot."""

    rows: int
    gone: int
    token: str
    compared: bool = False


def follow(view: PublishedView, target: Target, wanted: RowsWanted) -> Iterator[SinkStep]:
    """Write every change until the connection is closed. Raises ReadFailed, BadSelection, Unreadable, Unwritable.

    The target is compared with a snapshot if its token has expired, is of another installation or of other rows, or if another
    program has written to it.
    """
    token = _token_in(target.token(), wanted)
    while True:
        try:
            if token is None:
                step = reconcile(view, target, wanted)
                yield step
                token = step.token
            for change in view.changes(token, keys=wanted.keys, where=wanted.where):
                rows = target.convert(_without_label(change.rows.table))
                target.write(rows, change.gone, _stamp(change.token, wanted))
                yield SinkStep(rows.num_rows, change.gone.num_rows, change.token)
        except (TokenGone, Conflict):
            token = None
        else:
            return


def reconcile(view: PublishedView, target: Target, wanted: RowsWanted) -> SinkStep:
    """Make the target equal to the view at one snapshot, in one step; if it has the same columns, by its differing rows alone."""
    now = view.now()
    if now.memory is None:
        raise ReadFailed(f"view {view.name!r} needs more memory than `serving.memory_mb` gives, so a sink cannot follow it")
    chosen = row_filter(now.view, wanted).rows(now.scan(wanted.keys).table)
    rows, group, token = target.convert(_without_label(chosen)), identity(now.memory.answers.held.layout), now.token
    before = target.content(rows.schema)
    if before is None or before.group_by(group).aggregate([]).num_rows != before.num_rows:
        target.replace(rows, _stamp(token, wanted))
        return SinkStep(rows.num_rows, 0, token, compared=True)
    both = pairs(group, before, rows)
    was, is_ = both.there
    differs = pc.and_(is_, pc.invert(was))
    for name in rows.column_names:
        if name not in group:
            differs = pc.or_(differs, pc.and_(is_, both.unequal(name)))
    changed = both.sides[1].filter(differs)
    gone = both.sides[0].filter(pc.invert(is_)).select(group)
    target.write(changed, gone, _stamp(token, wanted))
    return SinkStep(changed.num_rows, gone.num_rows, token, compared=True)


def token_of_target(target: Target) -> str | None:
    """The token of a view in a target."""
    stored = target.token()
    return None if stored is None else stored.partition(" ")[0]


def _stamp(token: str, wanted: RowsWanted) -> str:
    """A token with the rows that it is of: a target of other rows is not continued."""
    rows = repr((sorted((name, repr(value)) for name, value in wanted.keys.items()), wanted.where))
    return f"{token} {hashlib.sha256(rows.encode()).hexdigest()[:16]}"


def _token_in(stored: str | None, wanted: RowsWanted) -> str | None:
    """The token of a stored text; None if it is not a token, or is of other rows."""
    if stored is None:
        return None
    token = stored.partition(" ")[0]
    try:
        ChangesToken.parse(token)
    except TandemError:
        return None
    return token if stored == _stamp(token, wanted) else None


def _without_label(rows: pa.Table) -> pa.Table:
    """Rows without the label of their window, which moves with time and is not a change."""
    return rows.select([name for name in rows.column_names if name != WINDOW_STATE.name])
