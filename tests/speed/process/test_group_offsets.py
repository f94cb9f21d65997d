"""The offsets of consumer groups, as Kafka's own tool shows them."""

from collections.abc import Mapping
from datetime import datetime

import pytest

from tandem.infra import kafka
from tandem.ledger.log.positions import Position
from tandem.speed.process.group_offsets import GroupOffsets, group_of
from tandem.views.source.event import Event
from tandem.views.source.source import Source
from tests.infra.kafka.tools import Tools
from tests.stack import new_topic, produce


class Sale(Event):
    """What a record would be; nothing here reads one."""

    at: datetime


pytestmark = pytest.mark.broker


class Shown:
    """A source of one topic, whose counted position a test chooses."""

    def __init__(self, broker: kafka.BrokerConnection) -> None:
        self.topic = new_topic(broker)
        self.source = Source(topic=self.topic.name, event=Sale, event_time="at", name=f"of-{self.topic.name}")
        self.position = Position()
        self.asked = 0

    def positions(self) -> Mapping[str, tuple[Source, Position]]:
        self.asked += 1
        return {self.source.name: (self.source, self.position)}


@pytest.mark.slow
def test_kafkas_tool_shows_what_is_counted_and_what_is_not_yet(broker: kafka.BrokerConnection) -> None:
    shown, said = Shown(broker), list[str]()
    topic, group = shown.topic, group_of("tandem", shown.source.name)
    produce(broker, topic, [b"{}"] * 5, partition=0)
    produce(broker, topic, [b"{}"] * 2, partition=1)
    offsets = GroupOffsets(broker, "tandem", shown.positions, said.append)
    for counted, lags in (({0: 3}, {0: (3, 2), 1: (0, 2)}), ({0: 5, 1: 2}, {0: (5, 0), 1: (2, 0)})):
        shown.position = Position.of({(topic.id, number): offset for number, offset in counted.items()})
        offsets.commit()
        assert Tools(broker.address).lags(group) == {(topic.name, number): lag for number, lag in lags.items()}
    assert said == []


def test_a_missing_topic_is_said_once_and_offsets_go_on_once_it_is_there(broker: kafka.BrokerConnection) -> None:
    shown, said = Shown(broker), list[str]()
    there, missing = shown.source, Source(topic="never-made", event=Sale, event_time="at", name=shown.source.name)
    offsets = GroupOffsets(broker, "tandem", shown.positions, said.append)
    shown.source = missing
    offsets.commit()
    offsets.commit()
    assert len(said) == 1
    assert "topic 'never-made' does not exist" in said[0]
    shown.source = there
    offsets.commit()
    assert offsets_of(broker, group_of("tandem", there.name)) == {0: 0, 1: 0}
    # What Kafka has already is not sent again.
    broker.admin.delete_groups([group_of("tandem", there.name)])
    offsets.commit()
    assert offsets_of(broker, group_of("tandem", there.name)) == {}


def offsets_of(broker: kafka.BrokerConnection, group: str) -> dict[int, int]:
    found = broker.admin.list_group_offsets(group)[group]
    return {place.partition: offset.offset for place, offset in found.items()}
