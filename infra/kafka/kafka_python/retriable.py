"""Which errors of kafka-python are retriable, and their reasons."""

import re
from typing import Final

from kafka.errors import KafkaError, UnknownBrokerIdError, UnknownTopicOrPartitionError

_GONE: Final = UnknownTopicOrPartitionError
"""The client treats a missing topic as retriable; here the topic has just been seen, so it was deleted."""


_LEADERLESS: Final = UnknownBrokerIdError
"""The client's error for a partition without a leader, as after a pause of the broker, which it does not mark as retriable."""


def heals(error: KafkaError) -> bool:
    """Whether a retry of the request may succeed: mostly the errors that the client marks as retriable."""
    return isinstance(error, _LEADERLESS) or (bool(error.retriable) and not isinstance(error, _GONE))


def reason(error: BaseException) -> str:
    """The error in Kafka's words, or else by its name: MessageSizeTooLargeError is "message size too large"."""
    said = next((str(one) for one in error.args if one), "")
    return said or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__.removesuffix("Error")).lower()
