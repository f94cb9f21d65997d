"""Keeps a target equal to a view: its changes from the target's token on, or the difference to a snapshot where there is none."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tandem.serving.changes import TokenGone
from tandem.serving.connection import PublishedView
from tandem.serving.sinks.target import Target
from tandem.views.errors import TandemError


def follow(view: PublishedView, target: Target, identity: Sequence[str], keys: Mapping[str, object] | None = None) -> None:
    """Write every change until the connection is closed. Raises Conflict, ReadFailed, Unreadable, Unwritable."""
    token, ended = target.token(), False
    while not ended:
        try:
            _continue(view, target, identity, token, keys)
            ended = True
        except TokenGone:
            token = None


def _continue(
    view: PublishedView, target: Target, identity: Sequence[str], token: str | None, keys: Mapping[str, object] | None
) -> None:
    try:
        stream = None if token is None else view.changes(token, keys=keys)
    except TandemError:
        stream = None  # another installation's token, or none at all
    if stream is None:
        token = reconcile(view, target, identity, keys)
        stream = view.changes(token, keys=keys)
    for change in stream:
        target.write(unlabelled(change.rows.to_arrow()), change.gone, change.token)


def reconcile(view: PublishedView, target: Target, identity: Sequence[str], keys: Mapping[str, object] | None) -> str:
    """Make the target equal to the view at one snapshot, with its differing rows and deletions alone; returns the token."""
    now = view.now()
    rows, before = unlabelled(now.scan(keys).to_arrow()), target.content()
    known = {tuple(row[name] for name in identity): row for row in before.to_pylist()}
    wanted = rows.to_pylist()
    differing = [known.get(tuple(row[name] for name in identity)) != row for row in wanted]
    gone = known.keys() - {tuple(row[name] for name in identity) for row in wanted}
    schema = pa.schema([rows.schema.field(name) for name in identity])
    deleted = pa.Table.from_pylist([dict(zip(identity, key, strict=True)) for key in gone], schema)
    target.write(rows.filter(pa.array(differing, pa.bool_())), deleted, now.token)
    return now.token


def unlabelled(rows: pa.Table) -> pa.Table:
    """Rows without their label, which moves with time and is not a change, and in types that a table of Delta has.

    Totals of decimals have 76 digits, and Delta has 38. Raises TandemError for a value that needs more.
    """
    kept = rows.select([name for name in rows.column_names if name != "window_state"])
    types = [
        field.with_type(pa.decimal128(38, field.type.scale)) if pa.types.is_decimal256(field.type) else field
        for field in kept.schema
    ]
    try:
        return kept.cast(pa.schema(types))
    except pa.ArrowInvalid as error:
        raise TandemError(f"a value needs more than the 38 digits of Delta's decimals: {error}") from error
