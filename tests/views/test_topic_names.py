"""The topics of a source by name and by pattern."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.source.event import Event
from tandem.views.source.source import Source
from tandem.views.sql_definitions.compile import compile_sql
from tandem.views.topic_names import pattern


class Parcel(Event):
    at: datetime


def parcels(topic: Any, **more: Any) -> Source:
    return Source(topic=topic, event=Parcel, event_time="at", name="parcels", **more)


@pytest.mark.parametrize(
    ("name", "matches"),
    [
        ("orders-de", True),
        ("orders-", True),
        ("orders", False),
        ("my-orders-de", False),
        ("orders-de\n", False),
        ("__orders-a", False),
    ],
)
def test_a_whole_name_matches_or_does_not(name: str, *, matches: bool) -> None:
    assert pattern("orders-.*").matches(name) is matches


def test_internal_topics_match_no_pattern() -> None:
    assert not any(pattern(".*").matches(name) for name in ("__consumer_offsets", "__transaction_state", "__"))


def test_names_of_a_source_are_declared_or_match() -> None:
    there = ["web", "orders-b", "orders-a", "__orders"]
    several = parcels(("web", "shop"))
    assert (several.topics_among(there), several.reads("shop"), several.reads("orders-a")) == (("web", "shop"), True, False)
    matching = parcels(pattern("orders-.*"))
    assert (matching.topics_among(there), matching.topics) == (("orders-b", "orders-a"), ())
    assert matching.topic_texts == ('pattern("orders-.*")',)
    assert (matching.reads("orders-x"), matching.reads("__orders-x")) == (True, False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "orders-(",
            r"'orders-\(' is not a regular expression: missing \), .*; write one, such as pattern\('orders-",
        ),
        ("*", "is not a regular expression: nothing to repeat"),
        ("", "pattern '' is not a text"),
        (7, "pattern 7 is not a text"),
    ],
)
def test_a_wrong_pattern_is_refused(text: Any, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        pattern(text)


def test_a_start_is_a_time_and_no_offset() -> None:
    time = datetime(2026, 11, 1, tzinfo=UTC)
    assert parcels(pattern("a.*"), start=time).start == time
    for offsets in ({0: 12}, {"a": {0: 12}}):
        with pytest.raises(DefinitionError, match='match a pattern: its start is a time with a zone, or "now"'):
            parcels(pattern("a.*"), start=offsets)


def test_which_topics_match_is_no_part_of_what_events_mean() -> None:
    assert decoder_fingerprint(parcels(pattern("a.*"))) == decoder_fingerprint(parcels("a"))


SQL = "CREATE SOURCE parcels (at TIMESTAMP NOT NULL, WATERMARK FOR at) WITH ({});"


def test_sql_has_the_pattern_as_an_option() -> None:
    assert 'topic=pattern("parcels-.*")' in compile_sql(SQL.format("topic_pattern = 'parcels-.*'"), "definitions.sql").text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("topic_pattern = 'parcels-('", "definitions.sql:1:.*'parcels-\\(' is not a regular expression"),
        ("topic_pattern = 7", "definitions.sql:1:.*pattern 7 is not a text"),
        (
            "topic_pattern = 'a', topic = 'b'",
            "definitions.sql:1:.*topic_pattern and topic both say which topics",
        ),
    ],
)
def test_sql_refuses_a_wrong_pattern_at_its_place(options: str, says: str) -> None:
    with pytest.raises(DefinitionError, match=says):
        compile_sql(SQL.format(options), "definitions.sql")
