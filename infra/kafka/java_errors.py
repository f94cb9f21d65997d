"""The retriable errors of Kafka's Java clients, with which Spark reads."""

import re
from typing import Final

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


def heals(text: str) -> bool:
    """Whether the innermost error of Kafka in a stack is retriable."""
    named = _NAMED.findall(text)
    return named[-1] in RETRIABLE if named else _SPARK_WAITED.search(text) is not None
