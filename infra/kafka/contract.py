"""What the port takes and returns: topics, records, outcomes of appended records, and errors between this program and Kafka."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tandem.views.errors import TandemError

MOST_BYTES: Final = 1_000_000
"""The most bytes of a record that Kafka's brokers accept by default, less those that Kafka adds."""


@dataclass(frozen=True)
class Topic:
    """A topic as it is now: a recreated topic has the same name and another id."""

    name: str
    id: str
    partitions: int


@dataclass(frozen=True)
class Record:
    """A record for a producer: `milliseconds` since 1970 are its timestamp; a header's value may be None."""

    milliseconds: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True)
class OpenTransaction:
    """An open transaction at which a partition's committed records end.

    Args:
        offset: where it begins: its partition's last stable offset.
        waiting: the offsets from there to the partition's end, of whatever producers.
        since: when it began; None if the broker does not report it.
        owner: its transactional id; None if the broker does not report it.
    """

    offset: int
    waiting: int
    since: datetime | None = None
    owner: str | None = None


@dataclass(frozen=True)
class Appended:
    """All replicas have the record, at this position; without an offset if the broker only reports that it has it already."""

    partition: int
    offset: int | None


@dataclass(frozen=True)
class NotAppended:
    """No acknowledgement arrived. With `sure` the record is not in the log; else that is unknown. Has Kafka's reason."""

    why: str
    sure: bool


Outcome = Appended | NotAppended
Told = Callable[[Sequence[Outcome]], object]


class NoBroker(TandemError, code="broker-unavailable"):
    """No Kafka broker answers at the address in time; a later request may succeed."""


class BrokerRefused(NoBroker, code="broker-refused"):
    """The broker answers and refuses: a login, a right or a value is wrong. A retry does not help."""


class LoginRefused(BrokerRefused, code="broker-login-refused"):
    """The broker, or the token endpoint, refuses the user's password, certificate or token."""


class RightMissing(BrokerRefused, code="broker-right-missing"):
    """The broker denies the user an operation: no ACL allows it."""


class UnknownAuthority(BrokerRefused, code="broker-authority-unknown"):
    """No authority that the client trusts has signed the broker's certificate."""


class BrokerTooOld(BrokerRefused, code="broker-too-old"):
    """The broker is of a version that lacks what the platform asks of it."""


class NoTopic(TandemError, code="topic-missing"):
    """The broker has no such topic, or no longer has it."""


class NotSent(TandemError, code="record-not-sent"):
    """A record was not acknowledged by all required replicas."""


class ProducerFenced(TandemError, code="producer-fenced"):
    """A later producer has the transactional id; nothing of the transaction was committed."""
