"""The topic to which `feed` and `generate` send a source's records."""

from datetime import datetime

import pytest

from tandem.cli.command.published_definitions import topic
from tandem.views.errors import TandemError
from tandem.views.source.event import Event
from tandem.views.source.record_filter import by_field, by_header
from tandem.views.source.source import Source
from tandem.views.topic_names import pattern


class Order(Event):
    at: datetime


def test_the_only_topic_needs_no_name_and_several_need_one() -> None:
    one = Source(topic="a", event=Order, event_time="at", record_filter=by_field("type", "order"), name="orders")
    assert topic(one, None) == topic(one, "a") == "a"
    several = Source(topic=("web", "shop"), event=Order, event_time="at", name="orders")
    assert topic(several, "shop") == "shop"
    with pytest.raises(TandemError, match=r"'orders' has several topics: choose one with --topic; topics: web, shop"):
        topic(several, None)
    for source in (one, several):
        with pytest.raises(TandemError, match=r"source 'orders' has no topic 'shoop'.*topics: "):
            topic(source, "shoop")


def test_a_pattern_needs_the_name_of_a_topic_that_matches() -> None:
    matching = Source(topic=pattern("orders-.*"), event=Order, event_time="at", name="orders")
    assert topic(matching, "orders-de") == "orders-de"
    for name, wrong in ((None, "has several topics"), ("shop", "has no topic 'shop'")):
        with pytest.raises(TandemError, match=rf'{wrong}: choose one with --topic; topics: those that match pattern\("orders-'):
            topic(matching, name)


def test_records_that_a_header_selects_need_another_producer() -> None:
    told = Source(topic="a", event=Order, event_time="at", record_filter=by_header("type", "order"), name="orders")
    with pytest.raises(TandemError, match="selects records by their header 'type', which this command does not write"):
        topic(told, None)
