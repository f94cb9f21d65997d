"""The transactions behind which a source's records wait: readers of committed records see none of these."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from tandem.infra.kafka.contract import OpenTransaction
from tandem.views.counted import counted
from tandem.views.instant import utc_text
from tandem.views.source.offset_ranges import Partition

LONG: Final = timedelta(minutes=1)
"""The age from which on an open transaction is a problem: a broker aborts it after a minute, if its producer asks for no more."""


@dataclass(frozen=True)
class BlockedPartition:
    """A partition of which committed records end at a transaction that is open."""

    topic_name: str
    place: Partition
    transaction: OpenTransaction

    def to_json(self) -> dict[str, Any]:
        """As `status --json` prints it."""
        transaction = self.transaction
        return {
            "topic": self.topic_name,
            "topic_id": self.place[0],
            "partition": self.place[1],
            "offset": transaction.offset,
            "offsets": transaction.waiting,
            "since": None if transaction.since is None else utc_text(transaction.since),
            "transactional_id": transaction.owner,
        }

    def age(self, now: datetime) -> timedelta | None:
        """How long the transaction has been open; None if that is unknown."""
        return None if self.transaction.since is None else max(timedelta(0), now - self.transaction.since)

    def warning(self, now: datetime) -> str | None:
        """How many records wait, since when, and how to continue; None for a transaction that is open for less than LONG."""
        age, transaction = self.age(now), self.transaction
        if age is not None and age < LONG:
            return None
        since = "" if transaction.since is None else f" since {utc_text(transaction.since)}"
        owner = "a transaction" if transaction.owner is None else f"the transaction of '{transaction.owner}'"
        return (
            f"{counted(transaction.waiting, 'offset')} of partition {self.place[1]} of topic '{self.topic_name}' "
            f"{'waits' if transaction.waiting == 1 else 'wait'} behind {owner}, open{since} at offset {transaction.offset}: "
            "answers and `tandem archive` end there until it is committed or aborted, and the topic's retention still deletes "
            "records; end its producer, or abort it by Kafka's `kafka-transactions.sh abort --topic "
            f"{self.topic_name} --partition {self.place[1]} --start-offset {transaction.offset}`"
        )


def partitions_with_transactions(
    transactions: Mapping[Partition, OpenTransaction], names: Mapping[str, str], topics: Iterable[str]
) -> tuple[BlockedPartition, ...]:
    """The blocked partitions of these topic ids, in order; `names` has the topics' names by id."""
    wanted = set(topics)
    return tuple(
        BlockedPartition(names[place[0]], place, transaction)
        for place, transaction in sorted(transactions.items(), key=lambda item: item[0])
        if place[0] in wanted
    )
