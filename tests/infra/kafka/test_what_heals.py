"""The retriable errors: all that the client marks so, except a deleted topic; and a missing leader."""

from dataclasses import replace

import pytest
from kafka import errors

from tandem.infra import kafka
from tandem.infra.kafka.kafka_python.client import ask, heals, reason

KINDS = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.KafkaError)),
    key=lambda kind: kind.__name__,
)
ALWAYS = ("FencedLeaderEpoch", "NotLeaderForPartition", "LeaderNotAvailable", "CoordinatorNotAvailable", "RequestTimedOut")


class Silent:
    """A connection of which only the address is used."""

    address = kafka.Address("a:1", {}, 1)


def made(kind: type[errors.KafkaError]) -> errors.KafkaError:
    return kind({}, "why") if kind is errors.LogTruncationError else kind("why")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_only_retriable_errors_are_retried(kind: type[errors.KafkaError]) -> None:
    asked = 0

    def question() -> str:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise made(kind)
        return "answer"

    if kind is errors.UnknownBrokerIdError or (kind.retriable and kind is not errors.UnknownTopicOrPartitionError):
        assert ask(Silent(), "it", question) == "answer"  # type: ignore[arg-type]
        assert asked == 3
    else:
        with pytest.raises(kafka.NoBroker, match=r"\ba:1\b"):
            ask(Silent(), "it", question)  # type: ignore[arg-type]
        assert asked == 1


def test_errors_of_a_frozen_broker_are_retriable() -> None:
    kinds = {kind.__name__.removesuffix("Error"): kind for kind in KINDS}
    assert all(heals(kinds[name]()) for name in ALWAYS)


def test_waiting_ends_with_the_reason() -> None:
    connection = Silent()
    connection.address = replace(connection.address, timeout_s=0)

    def question() -> str:
        raise errors.FencedLeaderEpochError

    with pytest.raises(kafka.NoBroker, match="did not answer in 0 s: fenced leader epoch") as raised:
        ask(connection, "it", question)  # type: ignore[arg-type]
    assert not isinstance(raised.value, kafka.BrokerRefused)
    assert reason(errors.MessageSizeTooLargeError()) == "message size too large"
