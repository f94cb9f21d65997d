"""A source that cannot mean anything is refused when it is written, with what would be valid."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tandem.views.errors import DefinitionError
from tandem.views.source.event import Event
from tandem.views.source.formats.json import Json, json
from tandem.views.source.source import Source, events_schema


class Click(Event):
    """An event type with fields of several kinds."""

    id: str
    at: datetime
    seen: datetime | None
    user: str | None
    ms: float
    tags: list[str]


NO_ZONE = datetime(2000, 1, 1)  # noqa: DTZ001  a fault to be found
GOOD: dict[str, Any] = {"topic": "clicks", "event": Click, "event_time": "at", "identity": ("id",)}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"topic": "a b"}, "'a b' is not a name that Kafka takes"),
        ({"topic": ".."}, "not a name that Kafka takes"),
        ({"topic": "x" * 250}, "not a name that Kafka takes"),
        ({"decoder": "jsn"}, r"unknown decoder 'jsn'; a decoder is an object: json\(\), nginx_json\(\), "),
        ({"decoder": "json"}, r"decoder 'json' is a text; write the object: decoder=json\(\)$"),
        ({"decoder": "csv"}, r"write the object: decoder=csv\(\.\.\.\)$"),
        ({"decoder": json}, r"decoder json is not called; write decoder=json\(\)$"),
        ({"decoder": Json}, r"invalid decoder .*; expected an object \(apache\(\.\.\.\), apache_combined\(\), "),
        ({"decoder": 7}, "invalid decoder 7; expected an object .*, or a function of the project"),
        ({"event_time": "att"}, "event_time: no field 'att' in Click; fields: at, "),
        ({"event_time": "seen"}, "'seen' of Click is not a datetime that is always present; such fields: at$"),
        ({"event_time": "id"}, "not a datetime"),
        ({"identity": ("ids",)}, "identity: no field 'ids' in Click; fields: id, "),
        ({"identity": "id"}, "'id' is not a tuple"),
        ({"identity_spans": "ever"}, "identity_spans 'ever' is not one of: event_time, any_time"),
        ({"identity": (), "identity_spans": "any_time"}, 'identity_spans="any_time" needs an identity'),
        ({"identity": ["id"]}, "is not a tuple"),
        ({"compacted": 1}, "compacted 1 is neither True nor False"),
        ({"identity": ("user",)}, "'user' of Click cannot identify events"),
        ({"identity": ("ms",)}, "cannot identify events"),
        ({"identity": ("tags",)}, "cannot identify events"),
        ({"plausible": (NO_ZONE, NO_ZONE)}, "not a pair of times with zones"),
        ({"plausible": (datetime(2001, 1, 1, tzinfo=UTC), datetime(2001, 1, 1, tzinfo=UTC))}, "first before last"),
        ({"plausible": None}, "not a pair of times"),
        ({"lateness": timedelta(seconds=-1)}, "negative"),
        ({"dedup_window": timedelta(seconds=-1)}, "dedup_window .* negative"),
        ({"idle": timedelta(seconds=-1)}, "idle .* negative"),
        ({"lateness": 10}, "lateness 10 is not a timedelta"),
        ({"event": int}, "not an event type"),
        ({"topic": ()}, "must be a topic name or a tuple of distinct topic names"),
        ({"topic": ["a"]}, "must be a topic name or a tuple"),
        ({"topic": ("a", "a")}, "must be a topic name or a tuple of distinct topic names"),
        ({"topic": ("a", "b c")}, "topic 'b c' is not a name that Kafka takes"),
    ],
)
def test_a_wrong_source_is_refused(changes: dict[str, Any], says: str) -> None:
    """Every wrong part of a source has a sentence of its own."""
    with pytest.raises(DefinitionError, match=says):
        Source(**(GOOD | changes))


def test_topics_are_a_tuple_however_they_were_given() -> None:
    assert Source(**GOOD | {"topic": "a"}).topics == ("a",)
    assert Source(**GOOD | {"topic": ("b", "a")}).topics == ("b", "a")


def test_an_events_table_has_positions_before_fields() -> None:
    """Where an event was in the log stands beside its fields, under names that no field can have."""
    assert events_schema(Source(**GOOD)).names == [
        *("_topic_id", "_partition", "_offset", "_append_time"),
        *("id", "at", "seen", "user", "ms", "tags"),
    ]
