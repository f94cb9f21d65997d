"""Transactions that hold back the records behind them: readers of committed records wait until they end."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafka import TopicPartition
from kafka.errors import AuthorizationError, IncompatibleBrokerVersion, UnsupportedVersionError

from tandem.infra.kafka.contract import OpenTransaction, Topic
from tandem.infra.kafka.kafka_python.client import BrokerConnection, ask
from tandem.infra.kafka.kafka_python.topics import ends
from tandem.views.instant import nearest_time
from tandem.views.source.offset_ranges import Offsets, Partition

_UNDESCRIBED: Final = (AuthorizationError, IncompatibleBrokerVersion, UnsupportedVersionError)
"""Errors of brokers that do not describe transactions, to this login or to anyone: Kafka does so from 3.0 on."""


def open_transactions(
    connection: BrokerConnection, topics: Iterable[Topic], committed: Offsets
) -> dict[Partition, OpenTransaction]:
    """The oldest open transaction of each partition that has one; `committed` are the ends of committed records, polled before.

    Raises NoBroker, NoTopic.
    """
    described = list(topics)
    behind = {
        place: (committed[place], end)
        for place, end in ends(connection, described, committed=False).items()
        if committed.get(place, end) < end
    }
    if not behind:
        return {}
    names = {topic.id: topic.name for topic in described}
    places = {TopicPartition(names[topic], number): (topic, number) for topic, number in behind}

    def question() -> dict[Partition, tuple[int | None, str | None]]:
        try:
            return _describe(connection.admin, places)
        except _UNDESCRIBED:
            return {}

    details = ask(connection, "open transactions", question)
    return {
        place: OpenTransaction(start, end - start, None if since is None else nearest_time(1000 * since), owner)
        for place, (start, end) in behind.items()
        for since, owner in (details.get(place, (None, None)),)
    }


def _describe(admin: Any, places: Mapping[TopicPartition, Partition]) -> dict[Partition, tuple[int | None, str | None]]:
    """By partition the time of its oldest transaction, in milliseconds since 1970, and its transactional id, as far as known.

    The time is the transaction's start by the broker's clock, else that of its producer's newest record.
    """
    oldest: dict[Partition, tuple[int, int]] = {}
    for place, state in admin.describe_producers(list(places)).items():
        active = [each for each in state.active_producers if each.current_transaction_start_offset >= 0]
        if active:
            first = min(active, key=lambda each: each.current_transaction_start_offset)
            oldest[places[place]] = first.producer_id, first.last_timestamp
    producers = {producer for producer, _ in oldest.values()}
    listed = admin.list_transactions(producer_id_filters=producers) if producers else {}
    owners = {each.producer_id: each.transactional_id for several in listed.values() for each in several}
    started = {owner: each.transaction_start_time_ms for owner, each in admin.describe_transactions(owners.values()).items()}
    return {
        place: (
            next((time for time in (started.get(owners.get(producer, ""), -1), newest) if time > 0), None),
            owners.get(producer),
        )
        for place, (producer, newest) in oldest.items()
    }
