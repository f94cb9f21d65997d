"""What goes wrong between this program and Kafka, and which of it heals when it is asked again."""

import re
from typing import Final

from kafka.errors import KafkaError, UnknownBrokerIdError, UnknownTopicOrPartitionError

from views.errors import TandemError


class NoBroker(TandemError):
    """No Kafka broker answers at the address, in time: a broker that comes back answers the next question."""


class BrokerRefused(NoBroker):
    """The broker answers and refuses: a login, a right or a value is wrong, and asking again changes nothing."""


class NoTopic(TandemError):
    """The broker has no such topic, or no longer has it."""


class NotSent(TandemError):
    """A record was not acknowledged by all that must hold it."""


_GONE: Final = UnknownTopicOrPartitionError
"""The client would ask again for a topic that was deleted; whoever asks here has just seen it."""


_LEADERLESS: Final = UnknownBrokerIdError
"""What the client raises, and does not mark as retriable, where nobody leads a partition yet: after a pause of the broker."""


def heals(error: KafkaError) -> bool:
    """Whether the same question may be answered when it is asked again: what the client marks as retriable, about."""
    return isinstance(error, _LEADERLESS) or (bool(error.retriable) and not isinstance(error, _GONE))


def reason(error: BaseException) -> str:
    """What went wrong, in Kafka's words, or else the name's: MessageSizeTooLargeError is "message size too large"."""
    said = next((str(one) for one in error.args if one), "")
    return said or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__.removesuffix("Error")).lower()
