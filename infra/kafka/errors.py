"""Errors between this program and Kafka."""

from tandem.views.errors import TandemError


class NoBroker(TandemError, code="broker-unavailable"):
    """No Kafka broker answers at the address in time; a later request may succeed."""


class BrokerRefused(NoBroker, code="broker-refused"):
    """The broker answers and refuses: a login, a right or a value is wrong. A retry does not help."""


class NoTopic(TandemError, code="topic-missing"):
    """The broker has no such topic, or no longer has it."""


class NotSent(TandemError, code="record-not-sent"):
    """A record was not acknowledged by all required replicas."""
