"""The retriable errors of Kafka's Java clients, with which Spark reads."""

import re
from typing import Final

from tandem.infra.kafka.address import Address
from tandem.infra.kafka.contract import BrokerRefused
from tandem.infra.kafka.refusals import refusal_of

RETRIABLE: Final = frozenset(
    {
        "AuthorizerNotReadyException",
        "ConcurrentTransactionsException",
        "CoordinatorLoadInProgressException",
        "CoordinatorNotAvailableException",
        "CorruptRecordException",
        "DisconnectException",
        "ElectionNotNeededException",
        "EligibleLeadersNotAvailableException",
        "FencedLeaderEpochException",
        "FetchSessionIdNotFoundException",
        "FetchSessionTopicIdException",
        "InconsistentTopicIdException",
        "InvalidFetchSessionEpochException",
        "InvalidMetadataException",
        "InvalidShareSessionEpochException",
        "KafkaStorageException",
        "LeaderNotAvailableException",
        "ListenerNotFoundException",
        "NetworkException",
        "NotControllerException",
        "NotCoordinatorException",
        "NotEnoughReplicasAfterAppendException",
        "NotEnoughReplicasException",
        "NotLeaderForPartitionException",
        "NotLeaderOrFollowerException",
        "OffsetNotAvailableException",
        "PreferredLeaderNotAvailableException",
        "ReplicaNotAvailableException",
        "RetriableException",
        "ShareSessionNotFoundException",
        "ThrottlingQuotaExceededException",
        "TimeoutException",
        "UnknownLeaderEpochException",
        "UnknownTopicIdException",
        "UnknownTopicOrPartitionException",
        "UnstableOffsetCommitException",
    }
)
"""The classes of org.apache.kafka.common.errors that are a RetriableException, as a test reads them from the jar."""

_NAMED: Final = re.compile(r"org\.apache\.kafka\.common\.errors\.(\w+)")
_SPARK_WAITED: Final = re.compile(r"java\.util\.concurrent\.TimeoutException: Cannot fetch record for offset")
"""The error of Spark's own reader for a broker that returned no records in time."""


_REFUSING: Final = re.compile(
    r"(?:org\.apache\.kafka\.common\.errors|javax\.net\.ssl|javax\.security\.auth\.login)\."
    r"((?:\w*Authorization|SaslAuthentication|SslAuthentication|UnsupportedSaslMechanism|UnsupportedVersion|SSLHandshake|Login)"
    r"Exception: .*)"
)
_OF_THE_PORT: Final = re.compile(r"^\s*tandem\.infra\.kafka\.contract\.(\w+): (.*)$", re.MULTILINE)


def refusal(address: Address, text: str) -> BrokerRefused | None:
    """Why the broker refuses Spark's own client, or that of a task that reads by our port; None for other errors."""
    raised = {kind.__name__: kind for kind in BrokerRefused.__subclasses__()}
    for name, sentence in _OF_THE_PORT.findall(text):
        if name in raised:
            return raised[name](sentence)
    words = _REFUSING.findall(text) if "org.apache.kafka" in text else []
    return refusal_of(address, words[-1].strip(), what="a read of the log") if words else None


def heals(text: str) -> bool:
    """Whether the innermost error of Kafka in a stack is retriable."""
    named = _NAMED.findall(text)
    return named[-1] in RETRIABLE if named else _SPARK_WAITED.search(text) is not None
