"""The parsers of a source's values, and records through them."""

from collections.abc import Hashable, Iterable, Sequence
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from itertools import repeat
from typing import Any, Final, cast
from uuid import UUID

import msgspec
import pyarrow as pa

from tandem.views.decode import function
from tandem.views.decode.lists import one_by_one, whole
from tandem.views.errors import DefinitionError
from tandem.views.source.decoder import Decoder, reads_tombstones, record_parameters
from tandem.views.source.event import Event, Field, event_fields
from tandem.views.source.fields.columns import unfit
from tandem.views.source.fields.reasons import Reject, refusal
from tandem.views.source.format import Listed, NestedFormat, Parse, RecordFormat, Searched, Unnest
from tandem.views.source.source import Source

_OWN_TYPES: Final = (bytes, datetime, date, time, timedelta, UUID)
"""Types whose values a default is written in; their texts are none."""


def parser(
    event: type[Event], decoder: Decoder, many: int | None = None, *, each: bool = False, unnest: Unnest | None = None
) -> Parse:
    """The decoder for an event type, or for lists of at most `many` events.

    A list is read as a list of its events, or with `each` as a ListReading. With `unnest` the list is in that field. Raises
    DefinitionError if decoder and event type do not fit.
    """
    return _made(event, cast("Hashable", decoder), many, each, unnest)  # frozen dataclasses and functions are


@lru_cache(maxsize=256)
def _made(
    event: type[Event],
    decoder: Decoder,
    many: int | None,
    each: bool,  # noqa: FBT001  lru_cache keys
    unnest: Unnest | None,
) -> Parse:
    for field in event_fields(event):
        if field.default is not msgspec.NODEFAULT and (problem := _no_default(field)):
            raise DefinitionError(f"{event.__name__}.{field.name}: default {field.default!r}: {problem}")
    if many is not None:
        if unnest is not None:
            several = _unnest(event, decoder, unnest)
        else:
            several = decoder.listed(event) if isinstance(decoder, RecordFormat) else function.listed(event, decoder)
        return one_by_one(several, many) if each else whole(several, many)
    return decoder.parser(event) if isinstance(decoder, RecordFormat) else function.parser(event, decoder)


def _no_default(field: Field) -> str | None:
    """Why a field's default is not a value of its type."""
    try:
        msgspec.convert(field.default, field.annotation, builtin_types=_OWN_TYPES)
    except msgspec.ValidationError as error:
        return f"{error}".replace("`", "'")
    reject = unfit(field, field.default)
    return reject.detail if reject else None


def _unnest(event: type[Event], decoder: Decoder, unnest: Unnest) -> Listed:
    if not isinstance(decoder, RecordFormat):
        raise DefinitionError(f"unnest: the function {decoder.__name__} returns the list of events itself; leave unnest out")
    if not isinstance(decoder, NestedFormat):
        raise DefinitionError(f"unnest: {decoder} cannot unnest; json(), avro() and protobuf() can")
    return decoder.unnest(event, unnest)


def parse_values(
    source: Source, event: type[Event], decoder: Decoder, batch: pa.RecordBatch
) -> tuple[dict[int, Any], dict[int, Reject]]:
    """What the decoder reads from each record, and the rejects of records that it cannot read, by row.

    It reads a struct; with `max_events_per_record` a list of structs, or a ListReading where each event has its own outcome.
    """
    read = ("value", *record_parameters(decoder))
    parse = parser(event, decoder, source.max_events_per_record, each=source.each_event_alone, unnest=source.unnest)
    parsers = parse.for_values(batch.column("value")) if isinstance(parse, Searched) else repeat(parse)
    # The decoder of an older version may read bytes alone.
    tombstones = source.tombstone_rule == "event" and reads_tombstones(decoder)
    return _parse(parsers, *(batch.column(name).to_pylist() for name in read), tombstones=tombstones)


def _parse(parsers: Iterable[Parse], *columns: Sequence[Any], tombstones: bool) -> tuple[dict[int, Any], dict[int, Reject]]:
    """Decode each row of columns, of which the first holds the values: the structs and the rejects, by row.

    A value of no bytes is rejected; so is a missing one, unless the parser takes `tombstones`.
    """
    structs: dict[int, Any] = {}
    rejected: dict[int, Reject] = {}
    for row, (parse, read) in enumerate(zip(parsers, zip(*columns, strict=True), strict=False)):
        if not (value := read[0]) and not (tombstones and value is None):
            rejected[row] = Reject("empty", "the record has no value" if value is None else "the value has no bytes")
            continue
        try:
            structs[row] = parse(*read)
        except BaseException as error:  # noqa: BLE001  the project's own code may raise anything, SystemExit too
            rejected[row] = refusal(error)
    return structs, rejected
