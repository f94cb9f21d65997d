"""Refusals that librdkafka reports to `error_cb` alone, while it retries without end."""

import time
from threading import Lock

from confluent_kafka import KafkaError

from tandem.infra.kafka.address import Address
from tandem.infra.kafka.contract import BrokerRefused
from tandem.infra.kafka.refusals import refusal_of


class NativeErrors:
    """The `error_cb` of a client, for any number of threads.

    A broker that starts may refuse a valid login for a while, so `raise_lasting` ignores a short one.
    """

    def __init__(self, address: Address) -> None:
        self._address, self._lock = address, Lock()
        self._refusal: BrokerRefused | None = None
        self._since = 0.0

    def __call__(self, error: KafkaError) -> None:
        """Keep the error if it is a refusal."""
        refusal = refusal_of(self._address, str(error.str()))
        with self._lock:
            if refusal is not None:
                self._since = self._since if self._refusal else time.monotonic()
                self._refusal = refusal

    @property
    def refusal(self) -> BrokerRefused | None:
        """Why the broker refuses the client; None if it never did, or has answered since."""
        return self._refusal

    def clear(self) -> None:
        """Forget the refusal, because the broker has answered."""
        with self._lock:
            self._refusal = None

    def raise_lasting(self) -> None:
        """Raise the refusal if it has lasted longer than the address's `timeout_s`."""
        with self._lock:
            if self._refusal is not None and time.monotonic() - self._since > self._address.timeout_s:
                raise self._refusal
