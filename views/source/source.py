"""A source: its topics, its event type, and how a record becomes an event."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from inspect import signature
from typing import Final, Literal, get_args

import pyarrow as pa

from tandem.views.errors import DefinitionError, listed
from tandem.views.instant import APPEND_TIME
from tandem.views.keep import check_keep
from tandem.views.source.decoder import Decoder, check_decoder, defined_by_name, reads_tombstones, record_parameters
from tandem.views.source.event import TIMESTAMP, Event, event_fields, event_schema
from tandem.views.source.fields.event_time import EVENT_TIME_COLUMN, time_path
from tandem.views.source.fields.named_fields import fields_to_unnest
from tandem.views.source.fields.rounded import roundings_schema
from tandem.views.source.format import RecordFormat, Unnest
from tandem.views.source.formats.json import JSON
from tandem.views.source.record_filter import RecordFilter, check_record_filter, record_filter_parameters
from tandem.views.source.schema_version import Version
from tandem.views.start import DeclaredStart, StartPositions, normal_start
from tandem.views.topic_names import TopicPattern, check_topics

LOG_APPEND_TIME: Final = 1
"""The timestamp type of records whose timestamp the broker sets."""
TABLE_ROW: Final = 2
"""The timestamp type of records that `tandem adopt` made from rows of a table. Kafka has 0 and 1 only."""

INDEX: Final = "_index"
"""The column with an event's place in its record's list, from 0 on, of a source with `max_events_per_record`."""

POSITION_SCHEMA = pa.schema(
    [
        ("_topic_id", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        (APPEND_TIME, TIMESTAMP),
    ]
)
RECORDS_SCHEMA = pa.schema(
    [
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
IDEMPOTENCY_KEY: Final = "_idempotency_key"
"""The column with the idempotency key that the sender gave the record, or else the record's place."""

IDEMPOTENCY_HEADER: Final = "idempotency-key"
"""The header of a record with the idempotency key."""

METADATA_SCHEMA = pa.schema(
    [
        ("_key", RECORDS_SCHEMA.field("key").type),
        ("_headers", RECORDS_SCHEMA.field("headers").type),
        (IDEMPOTENCY_KEY, pa.string()),
    ]
)
_READ_OF: Final = {"_key": "key", "_headers": "headers", IDEMPOTENCY_KEY: "headers"}
"""By metadata column, the column of RECORDS_SCHEMA from which it is made."""
REJECTS_SCHEMA = pa.schema(
    [
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("first_bytes", pa.binary()),
    ]
)

REJECTED_INDEX: Final = pa.field("index", pa.int32())
"""The column of rejects with the index of the event that is rejected alone; null where the whole record is rejected."""

BadEvent = Literal["event", "record"]
"""What is rejected where an event of a list does not decode: that event alone, or its record with all events."""

Tombstones = Literal["skip", "event", "reject"]
"""What a tombstone is, a record without a value: nothing, what a function of the project makes of it, or a reject."""

IdentitySpan = Literal["event_time", "any_time"]
"""What duplicates have in common besides their identity: their event time, or nothing."""

PLAUSIBLE: Final = (datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
"""The event times that a source takes unless it declares others: most times beyond are of a clock or unit that is wrong."""

Prepare = Callable[[pa.Table], pa.Table]
"""From events to the rows that views read; see tandem.views.source.prepare."""

_MOST_EVENTS = 1_000_000
_IDENTITY_TYPES = "bool, int, str, bytes, date, datetime, UUID, Decimal, Enum or Literal"


@dataclass(frozen=True)
class Source:
    """Where events come from: one or more topics, and how a record becomes an event.

    What the log is:

    * `topic`: the topic's name, a tuple of names, or a pattern of names, such as pattern("orders-.*").
    * `record_filter`: which records of the topics are the source's own: by_header, by_field, or a function. Tandem counts the
      others, and they are neither events nor rejects.
    * `compacted`: a topic has the cleanup.policy compact. An event can then be gone before it is archived, because a newer
      one of its key replaced it, so no answer is called exact.
    * `tombstones`: what a record without a value is, with which a producer deletes its key. With "skip" it is neither an event
      nor a reject, and is counted as skipped. With "event" the decoder, which is then debezium() or a function, takes None in
      place of bytes, with the `key` if it names it. With "reject" it is a reject. The default is "skip" with `compacted` and
      with debezium(), else "reject".
    * `start`: where the log starts for this source: a time, "now", or the first offsets by partition, {0: 1200}, of several
      topics by topic and partition. Records before it may be archived, and never count. `apply` turns a time into offsets once:
      of each partition the first record with a timestamp at or after it. The default is the first record.
    * `keep`: how long archive, events and quarantine keep records. `maintain` removes a file once all of its records are that
      much older than the newest one, and all windows of its events have left every view. So every view needs a `keep`, too.
    * `key`: an expression over the event's fields. Its text is the Kafka key of the records that `tandem feed`, `tandem
      generate` and `tandem serve` write, so events with equal keys are in one partition, in order. Without it Kafka chooses
      the partition.

    How a record becomes an event:

    * `event`: the event type.
    * `decoder`: an object (json(), csv(...), tsv(...), syslog(), apache(...), nginx(...), avro(...), protobuf(...),
      debezium()) or a function of the project. A function takes the value's bytes, and by name what it needs of `key`,
      `headers`, `timestamp`, `topic_id`, `partition` and `offset`; it returns an event or raises.
    * `versions`: earlier versions of the event type, the newest first. A record that the event type rejects is read as the
      first version that accepts it; the event is what that version's upgrade returns.
    * `max_events_per_record`: with a number n, a value holds a list of 1 to n events. The decoder defines the list: a JSON
      array, rows, lines; a function returns a list, in which an exception rejects the event in whose place it is. The events
      have an `_index` too, their place in the list from 0 on, and `key` is for records whose events all have it.
    * `on_bad_event`: where an event of a list does not decode. With "event" that event alone goes to quarantine, with its index,
      and the others count. With "record" they all count or the record goes to quarantine. A value that is no such list, or of
      more than n events, goes to quarantine whole.
    * `unnest`: each value is one record, and each item of the list in this field is an event. The event type has the field with
      the type of an item: with `items: Item` and `unnest="items"` the records have a list of items. With `entries("tags")` they
      have a map, and the field is a struct of `key: str` and `value`. All other fields are those of the record. A list without
      items, or of more than `max_events_per_record`, which is declared too, rejects the record. The items of one record differ
      in `_index`, which is a part of the identity.
    * `metadata`: what else of the record an event holds: `_key` (bytes), `_headers` (a list of structs of key and value) and
      `_idempotency_key` (text; without the header it is the record's own place, such as `at TOPIC ID/0/31`). Views use them
      like `_topic_id`, `_partition`, `_offset` and `_append_time`, which every event has.
    * `prepare`: a function of the project from an Arrow table of events to a table of rows for the views, any number for each
      event by itself (see views/source/prepare.py). Every view rejects an event for which it fails.

    When an event happened, and which one it is:

    * `event_time`: the datetime field that says when the event happened; `properties.time` is the field of a struct. A date with
      a Zone is the first instant of its day there. Or APPEND_TIME, "_append_time", for when the log
      received it (processing time); the topic's message.timestamp.type must then be LogAppendTime.
    * `plausible`: a half-open range of event times. An event outside it goes to quarantine. By default it is PLAUSIBLE, from the
      year 2000 to the year 2099; declare a wider one for older history.
    * `identity`: the fields that tell an event from its duplicates. Without fields every record counts. `_idempotency_key`
      among them is the record's header idempotency-key, 1 to 255 visible ASCII characters, by which a retried request is
      recognized; a record without the header is a duplicate of none.
    * `identity_spans`: with "event_time", events of one identity are duplicates only if their event times are equal, too. With
      "any_time" they are duplicates whatever their times, for producers that give a retry a new time: the first in log order
      counts, over all history. An id that is used again is then a duplicate, however much later.
    * `dedup_window`: the speed layer drops duplicates of events that the log received at most this much earlier. Batch drops
      all duplicates, so `dedup_window` decides how soon an answer is right, not what it means.

    Labels, which change no number:

    * `lateness`: an event more than this behind its partition's newest event time is labelled late. It counts all the same.
    * `idle`: the source's watermark is the least of the partitions' newest event times. A partition is left out if the log
      received its newest event more than `idle` before the newest event of all. Answers label windows by watermark and
      `lateness` (see docs/windows.md).
    * `clock_skew`: an event whose time is more than this after its own record's timestamp is ahead. It counts, and moves
      neither the watermark nor idleness. With timedelta.max every event moves them.

    `name` is the variable's in definitions.py unless it is given.
    """

    topic: str | tuple[str, ...] | TopicPattern
    event: type[Event]
    event_time: str
    identity: tuple[str, ...] = ()
    decoder: Decoder = JSON
    plausible: tuple[datetime, datetime] = PLAUSIBLE
    lateness: timedelta = timedelta(seconds=10)
    idle: timedelta = timedelta(minutes=1)
    clock_skew: timedelta = timedelta(hours=1)
    dedup_window: timedelta = timedelta(minutes=10)
    metadata: tuple[str, ...] = ()
    prepare: Prepare | None = None
    key: str | None = None
    versions: tuple[Version, ...] = ()
    record_filter: RecordFilter | None = None
    max_events_per_record: int | None = None
    on_bad_event: BadEvent = "event"
    unnest: Unnest | None = None
    compacted: bool = False
    tombstones: Tombstones | None = None
    identity_spans: IdentitySpan = "event_time"
    start: DeclaredStart | StartPositions | None = None
    history_until: datetime | None = None
    keep: timedelta | None = None
    name: str = ""

    def __post_init__(self) -> None:
        check_topics(self.topic)
        # The one form of a declared start can be hashed.
        object.__setattr__(self, "start", normal_start(self.start, self.topics))
        check_decoder(self.decoder)
        if not isinstance(self.metadata, tuple) or not all(name in METADATA_SCHEMA.names for name in self.metadata):
            raise DefinitionError(f"metadata {self.metadata!r} is not a tuple of some of: {', '.join(METADATA_SCHEMA.names)}")
        most = self.max_events_per_record
        if most is not None and (type(most) is not int or not 1 <= most <= _MOST_EVENTS):
            raise DefinitionError(f"max_events_per_record {most!r} is not an integer from 1 to {_MOST_EVENTS}")
        if self.on_bad_event not in get_args(BadEvent):
            raise DefinitionError(f"on_bad_event {self.on_bad_event!r} is not one of: {', '.join(get_args(BadEvent))}")
        if not isinstance(self.compacted, bool):
            raise DefinitionError(f"compacted {self.compacted!r} is neither True nor False")
        if self.tombstones not in (None, *get_args(Tombstones)):
            raise DefinitionError(f"tombstones {self.tombstones!r} is not one of: {', '.join(get_args(Tombstones))}")
        if self.tombstones == "event" and not reads_tombstones(self.decoder):
            raise DefinitionError(
                f'tombstones="event" needs debezium() as decoder, or a function of the project that takes None and returns an '
                f"event; {self.decoder} reads bytes"
            )
        if self.key is not None and not isinstance(self.key, str):
            raise DefinitionError(f"key {self.key!r} is not an expression over the event's fields, such as 'customer'")
        if not isinstance(self.versions, tuple) or not all(isinstance(version, Version) for version in self.versions):
            raise DefinitionError(f"versions {self.versions!r} is not a tuple of Versions, such as (Version(OldOrder, upgrade),)")
        if self.record_filter is not None:
            check_record_filter(self.record_filter)
        if self.prepare is not None:
            _check_prepare(self.prepare)
        self._check_fields()
        self._check_unnest()
        self._check_times()
        check_keep(self)

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the source's topics, without duplicates; none if a pattern says which they are."""
        return () if isinstance(self.topic, TopicPattern) else (self.topic,) if isinstance(self.topic, str) else self.topic

    @property
    def pattern(self) -> TopicPattern | None:
        """The pattern of its topics' names, if it has one."""
        return self.topic if isinstance(self.topic, TopicPattern) else None

    @property
    def topic_texts(self) -> tuple[str, ...]:
        """What its definition says of its topics, for a person: their names, or the pattern."""
        return (str(self.pattern),) if self.pattern else self.topics

    def reads(self, topic: str) -> bool:
        """Whether it reads a topic of this name."""
        return topic in self.topics if self.pattern is None else self.pattern.matches(topic)

    def topics_among(self, names: Iterable[str]) -> tuple[str, ...]:
        """The names of its topics: those that it declares, or those of `names` that its pattern matches."""
        return self.topics if self.pattern is None else tuple(filter(self.pattern.matches, dict.fromkeys(names)))

    @property
    def tombstone_rule(self) -> Tombstones:
        """What a record without a value is: as declared, else nothing where producers delete by it, and a reject elsewhere."""
        if self.tombstones is not None:
            return self.tombstones
        deletes = self.compacted or (isinstance(self.decoder, RecordFormat) and reads_tombstones(self.decoder))
        return "skip" if deletes else "reject"

    @property
    def skips(self) -> bool:
        """Whether some of the source's own records are neither events nor rejects: tombstones, or records before its start."""
        return self.tombstone_rule == "skip" or isinstance(self.start, StartPositions)

    @property
    def has_others(self) -> bool:
        """Whether some records of its topics are not its own: those of other sources, or of the other side of its seam."""
        return self.record_filter is not None or self.history_until is not None

    @property
    def identity_has_time(self) -> bool:
        """Whether duplicates have equal event times: not with "any_time", nor if the log gives each record its own time."""
        return bool(self.identity) and self.identity_spans == "event_time" and self.event_time != APPEND_TIME

    @property
    def each_event_alone(self) -> bool:
        """Whether a record holds a list, of which each event is decoded or rejected by itself."""
        return self.max_events_per_record is not None and self.on_bad_event == "event"

    @property
    def index_identifies(self) -> bool:
        """Whether events of one record that are equal in all fields of the identity differ by their `_index`."""
        if not self.identity or self.max_events_per_record is None:
            return False
        return self.unnest is not None or IDEMPOTENCY_KEY in self.identity

    @property
    def time_column(self) -> str:
        """The column of events with the event time: that of the field, or else EVENT_TIME_COLUMN."""
        if self.event_time == APPEND_TIME:
            return APPEND_TIME
        path = time_path(self.event, self.event_time)
        return self.event_time if len(path) == 1 and path[0].type is datetime else EVENT_TIME_COLUMN

    def _check_fields(self) -> None:
        fields = {field.name: field for field in event_fields(self.event)}
        if not isinstance(self.identity, tuple):
            raise DefinitionError(f"identity {self.identity!r} is not a tuple of field names, such as ('request_id',)")
        for name in self.identity:
            if name != IDEMPOTENCY_KEY and name not in fields:
                raise DefinitionError(
                    f"identity: no field {name!r} in {self.event.__name__}; fields: {listed(str(name), fields)}"
                )
        if self.identity_spans not in get_args(IdentitySpan):
            raise DefinitionError(f"identity_spans {self.identity_spans!r} is not one of: {', '.join(get_args(IdentitySpan))}")
        if self.identity_spans == "any_time" and not self.identity:
            raise DefinitionError('identity_spans="any_time" needs an identity: without one every record counts')
        if self.event_time != APPEND_TIME:
            time_path(self.event, self.event_time)
        for field in (fields[name] for name in self.identity if name != IDEMPOTENCY_KEY):
            if field.optional or field.type is float or field.items is not None or field.fields:
                # Nulls would make unrelated events duplicates; floats, lists and structs have no safe equality.
                raise DefinitionError(
                    f"identity: field {field.name!r} of {self.event.__name__} cannot identify events; an identity needs fields "
                    f"that are always present, of the types {_IDENTITY_TYPES}"
                )

    def _check_unnest(self) -> None:
        if self.unnest is None:
            return
        if not isinstance(self.unnest, Unnest):
            raise DefinitionError(f'unnest {self.unnest!r} is neither the name of a field, such as "items", nor entries("tags")')
        if self.max_events_per_record is None:
            raise DefinitionError(
                f"unnest={str(self.unnest)!r} makes several events of a record; say how many at most: max_events_per_record=100"
            )
        fields_to_unnest(self.event, self.unnest)

    def _check_times(self) -> None:
        bounds = self.plausible if isinstance(self.plausible, tuple) else ()
        zoned = [bound for bound in bounds if isinstance(bound, datetime) and bound.tzinfo is not None]
        if len(zoned) != 2 or len(bounds) != 2 or not zoned[0] < zoned[1]:
            raise DefinitionError(f"plausible {self.plausible!r} is not a pair of times with zones, first before last")
        until = self.history_until
        if until is not None and (not isinstance(until, datetime) or until.tzinfo is None):
            raise DefinitionError(f"history_until {until!r} is not a time with a zone, such as datetime(2026, 11, 1, tzinfo=UTC)")
        if until is not None and self.max_events_per_record is not None:
            raise DefinitionError("history_until decides about whole records; a source with max_events_per_record cannot have it")
        for name in ("lateness", "idle", "clock_skew", "dedup_window"):
            span = getattr(self, name)
            if not isinstance(span, timedelta) or span < timedelta(0):
                raise DefinitionError(f"{name} {span!r} is not a timedelta, or it is negative")


def _check_prepare(function: Prepare) -> None:
    if not defined_by_name(function):
        raise DefinitionError(f"prepare {function!r} must be a module-level, named function")
    if len(signature(function).parameters) != 1:
        raise DefinitionError(f"prepare {function.__name__} takes {signature(function)}; it takes one table of events")


def events_schema(source: Source) -> pa.Schema:
    """The columns of the source's events: position in the log, the columns that Tandem adds, the event's fields."""
    around = (position_schema(source), metadata_schema(source), time_schema(source), roundings_schema(source.event))
    return pa.schema([*(field for schema in around for field in schema), *event_schema(source.event)])


def time_schema(source: Source) -> pa.Schema:
    """The column with the event time, if no field's column is it."""
    return pa.schema([(EVENT_TIME_COLUMN, TIMESTAMP)] if source.time_column == EVENT_TIME_COLUMN else [])


def position_schema(source: Source) -> pa.Schema:
    """The columns with an event's position in the log."""
    return POSITION_SCHEMA if source.max_events_per_record is None else POSITION_SCHEMA.append(pa.field(INDEX, pa.int32()))


def rejects_schema(source: Source) -> pa.Schema:
    """The columns of the source's rejects."""
    return REJECTS_SCHEMA.append(REJECTED_INDEX) if source.each_event_alone else REJECTS_SCHEMA


def position_columns(source: Source) -> tuple[str, ...]:
    """The columns that identify an event, in the order by which the log is sorted."""
    return ("_topic_id", "_partition", "_offset", *(() if source.max_events_per_record is None else (INDEX,)))


def metadata_schema(source: Source) -> pa.Schema:
    """The source's metadata columns, also those of its identity, in the order of METADATA_SCHEMA."""
    return pa.schema([field for field in METADATA_SCHEMA if field.name in (*source.metadata, *source.identity)])


def record_columns(source: Source) -> tuple[str, ...]:
    """The columns of RECORDS_SCHEMA that decoding reads."""
    held = ("topic_id", "partition", "offset", "timestamp", "timestamp_type", "value")
    metadata = (_READ_OF[name] for name in metadata_schema(source).names)
    decoders = (source.decoder, *(version.decoder for version in source.versions))
    read = (name for decoder in decoders for name in record_parameters(decoder))
    return tuple(dict.fromkeys((*held, *metadata, *record_filter_parameters(source.record_filter), *read)))
