"""A source's key: which of its records go to one partition, and what that means for views.

Kafka sends records with equal keys to one partition, where their order is kept.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from tandem.views.decode import decode
from tandem.views.decode.sample_records import as_records
from tandem.views.errors import DefinitionError
from tandem.views.source.event import event_schema
from tandem.views.source.source import Source
from tandem.views.sql import engine
from tandem.views.sql.expressions import Expression, bind_expression
from tandem.views.sql.syntax import enclosed
from tandem.views.view import View, bind
from tandem.views.windows.in_order import PARTITION

_EVENTS: Final = "_keyed"
_UNLOGGED: Final = datetime(2000, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=256)
def bind_key(source: Source) -> Expression | None:
    """The expression that gives the key of a record from its event; None if the source has none.

    It may read the event's fields only: the record has no position yet. Raises DefinitionError.
    """
    if source.key is None:
        return None
    try:
        bound = bind_expression(source.key, event_schema(source.event), source.event.__name__)
    except DefinitionError as error:
        raise DefinitionError(f"key: {source.key!r} {error}") from error
    if bound.type.kind == "float":
        raise DefinitionError(f"key: {source.key!r} is a DOUBLE, whose text depends on its digits; CAST it AS DECIMAL(18, 3)")
    return bound


def record_keys(source: Source, values: Sequence[bytes]) -> list[bytes | None]:
    """The Kafka keys of records with these values: the text of the source's key in UTF-8, bytes unchanged.

    A key is None, which lets Kafka choose the partition, if

    * the source has no key,
    * the key is NULL or its expression fails,
    * the value does not decode, or holds events of several keys.
    """
    if source.key is None or not values or (key := bind_key(source)) is None:
        return [None] * len(values)
    # The record filter may read headers, which these records do not have yet.
    own = replace(source, record_filter=None)
    given = as_records(own, values, topic_id=source.topic_texts[0], offsets=range(len(values)), at=_UNLOGGED)
    events = decode(own, given).events
    value = enclosed(key.text)
    content = value if key.type.kind == "binary" else f"encode(CAST({value} AS VARCHAR))"
    sql = f"SELECT _offset, TRY({content}) AS key FROM {_EVENTS}"
    found: dict[int, set[bytes | None]] = {}
    for piece, result in engine.halved(sql, _EVENTS, events):
        keys = [None] * len(piece) if result is None else result["key"].to_pylist()
        for offset, key_of_one in zip((piece if result is None else result)["_offset"].to_pylist(), keys, strict=True):
            found.setdefault(offset, set()).add(key_of_one)
    several = (found.get(offset, set()) for offset in range(len(values)))
    return [next(iter(keys)) if len(keys) == 1 else None for keys in several]


def spread(view: View) -> str | None:
    """Why events of one key of the view may be in several partitions, if its windows follow the order of the log; else None."""
    bound, source = bind(view), view.source
    if not set(PARTITION) <= set(bound.placement.columns.answers):
        return None
    columns = {key.column for _, key in bound.keys}
    own = bind_key(source)
    if "_partition" in columns:
        return None
    if own is None:
        why = f"source {source.name!r} has no key"
    elif len(source.topics) != 1:
        why = f"source {source.name!r} has several topics"
    elif own.canonical in {key.canonical for _, key in bound.keys} or own.fields <= columns:
        return None
    else:
        why = f"the key of source {source.name!r}, {own.text}, is not among the view's keys"
    return (
        f"its windows follow the order of the log within a partition, and {why}: events of one key may be in "
        "several partitions, with separate windows in each"
    )
