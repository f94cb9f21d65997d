"""Connections by kafka-python: requests with back-off until an answer or a timeout, and a close with their owner."""

import logging
import re
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from kafka.admin import KafkaAdminClient
from kafka.errors import (
    AuthorizationError,
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnknownBrokerIdError,
    UnknownTopicOrPartitionError,
    UnsupportedSaslMechanismError,
)
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from tandem.infra.kafka.address import Address
from tandem.infra.kafka.contract import BrokerRefused, NoBroker
from tandem.infra.kafka.kafka_python.token_provider import TokenProvider
from tandem.infra.kafka.refusals import LEAST_VERSION, refusal_of, too_old
from tandem.infra.settings.kafka_clients import OPTIONS

_T = TypeVar("_T")

_NAMES: Final = {
    "security.protocol": "security_protocol",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}
_REQUEST_S: Final = 15
_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_DENIED: Final = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError, AuthorizationError, IncompatibleBrokerVersion)
_TLS: Final = ("[SSL: CERTIFICATE_VERIFY_FAILED]", "_ALERT_")
"""In the client's text for a handshake that one side refuses for the other's certificate."""
_NO_FRAME: Final = "Invalid frame length"
"""The client's text for an answer that is not Kafka's, as that of TLS."""
_RESPONSE: Final = re.compile(r"error_message=(?P<quote>['\"])(?P<said>.+?)(?P=quote)")
_TIMED_OUT: Final = (KafkaTimeoutError, RequestTimedOutError)
_HUNG_UP: Final = "socket disconnected"
"""The client's text for a connection that the broker closed. A broker closes it without an answer if a login is missing."""
_IO_THREAD: Final = "kafka-io-"
"""The name of the client's threads."""
_GONE: Final = UnknownTopicOrPartitionError
"""The client treats a missing topic as retriable; here the topic has just been seen, so it was deleted."""
_LEADERLESS: Final = UnknownBrokerIdError
"""The client's error for a partition without a leader, as after a pause of the broker, which it does not mark as retriable."""


class Open:
    """Referenced by a connection and its copies. The client itself cannot serve for that: ended requests still refer to it."""


@dataclass(frozen=True)
class BrokerConnection:
    """An open connection to a broker. Keep it for several requests: each then takes a millisecond or two.

    For any number of threads. It is closed when neither it nor a copy of it is referenced.
    """

    address: Address
    admin: KafkaAdminClient
    open: "Open" = field(repr=False)


def connect(address: Address) -> BrokerConnection:
    """Open a connection; raises NoBroker at once if nothing listens at any of the addresses.

    Raises LoginRefused, UnknownAuthority or BrokerTooOld for a broker that cannot be used.
    """
    refusals = [_refusal(server.strip(), address.timeout_s) for server in address.bootstrap.split(",")]
    if all(refusals):
        raise NoBroker(f"no Kafka broker at {address.bootstrap}: {refusals[0]}")
    with opening(address) as options:
        admin = KafkaAdminClient(**options)
    version = admin._manager.broker_version  # noqa: SLF001 - the client answers by it, and has no other name for it
    if version is not None and version < LEAST_VERSION:
        admin.close()
        raise too_old(address, f"it answers as version {'.'.join(map(str, version))}")
    opened = Open()
    weakref.finalize(opened, _close, admin)
    return BrokerConnection(address, admin, opened)


@contextmanager
def opening(address: Address) -> Iterator[dict[str, Any]]:
    """The options for a client of this address, which the body creates. A failed creation leaves no thread or socket behind.

    Raises NoBroker, or BrokerRefused.
    """
    # Errors reach the caller as exceptions; the client's own log would go to the terminal.
    logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
    made: list[_Client] = []

    def client(**options: Any) -> _Client:
        made.append(_Client(**options))
        return made[-1]

    try:
        yield {**configuration(address), "kafka_client": client}
    except KafkaError as error:
        failure = next((one.failure for one in made if one.failure is not None), None)
        for one in made:
            one.close()
        if _denies(failure or error):
            raise _refusal_of(address, "a connection", failure or error) from None
        raise NoBroker(_hung_up(address) if _disconnected(failure) else _silence(address, failure)) from None


def configuration(address: Address) -> dict[str, Any]:
    """The configuration of a kafka-python client of this address."""
    given: dict[str, Any] = {_NAMES[name]: value for name, value in address.options.items() if name in _NAMES}
    if "security_protocol" in given:
        given["security_protocol"] = given["security_protocol"].upper()
    if given.get("sasl_mechanism") == "OAUTHBEARER":
        given["sasl_oauth_token_provider"] = TokenProvider(address.options, address.timeout_s)
    for name, value in address.further.items():
        if python := OPTIONS[name].python:
            given[python] = int(value) if value.isdigit() else value
    return {
        "bootstrap_servers": [server.strip() for server in address.bootstrap.split(",")],
        "bootstrap_timeout_ms": address.timeout_s * 1000,
        # A lost request is repeated within its time.
        "request_timeout_ms": min(address.timeout_s, _REQUEST_S) * 1000,
        "reconnect_backoff_max_ms": int(_LONGEST_PAUSE_S * 1000),
        # A connection with this many requests in flight refuses the next one; threads share a connection.
        "max_in_flight_requests_per_connection": 1000,
        **given,
    }


def ask(connection: BrokerConnection, what: str, question: Callable[[], _T]) -> _T:
    """The answer to a read-only request, repeated with back-off while its error is retriable, within the address's timeout.

    Raises NoBroker after the timeout, and BrokerRefused for an error that is not retriable; `what` names the request in messages.
    """
    deadline, pause = time.monotonic() + connection.address.timeout_s, _PAUSE_S
    while True:
        try:
            return question()
        except KafkaError as error:
            if _denies(error) or not heals(error):
                raise refusal(connection, what, error) from None
            if time.monotonic() + pause > deadline:
                raise NoBroker(_silence(connection.address, error)) from None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def refusal(connection: BrokerConnection, what: str, error: BaseException) -> NoBroker:
    """The broker's answer to a request as an error to raise."""
    if isinstance(error, KafkaError) and _denies(error):
        return _refusal_of(connection.address, what, error)
    kind = NoBroker if isinstance(error, KafkaError) and error.retriable else BrokerRefused
    return kind(f"{what} at {connection.address.bootstrap}: {reason(error)}")


def _denies(error: BaseException | None) -> bool:
    """Whether the broker refuses the client, or the client the broker's certificate, so that a retry does not help."""
    if isinstance(error, KafkaConnectionError):
        return any(each in reason(error) for each in _TLS)
    return isinstance(error, _DENIED)


def _refusal_of(address: Address, what: str, error: BaseException) -> BrokerRefused:
    """The error to raise for a denial, by its message, or else by its message and the name of its class."""
    words = reason(error)
    refusal = refusal_of(address, words, what=what) or refusal_of(address, f"{words} ({type(error).__name__})", what=what)
    return refusal or BrokerRefused(f"{what} at {address.bootstrap}: {words}")


def heals(error: KafkaError) -> bool:
    """Whether a retry of the request may succeed: mostly the errors that the client marks as retriable."""
    return isinstance(error, _LEADERLESS) or (bool(error.retriable) and not isinstance(error, _GONE))


def reason(error: BaseException) -> str:
    """The error in Kafka's words, or else by its name: MessageSizeTooLargeError is "message size too large"."""
    said = next((str(one) for one in error.args if one), "")
    if answer := _RESPONSE.search(said):
        return answer["said"]
    return said or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(error).__name__.removesuffix("Error")).lower()


class _Manager(KafkaConnectionManager):
    """Records why a connection failed, and fails at once for a wrong login instead of retrying until the timeout."""

    failure: KafkaError | None = None

    def get_connection(self, node_id: Any, **options: Any) -> Any:
        before = self._conns.get(node_id)
        try:
            connection = super().get_connection(node_id, **options)
        except UnknownBrokerIdError:
            # The broker joined since the last update; without this the client would update only minutes later.
            self.cluster.request_update()
            raise
        if connection is not before:
            for ended in (connection.init_future, connection.close_future):
                ended.add_errback(lambda error: self._failed(node_id, error))
            login = connection._sasl_authenticate  # noqa: SLF001 - the broker closes, which hides what it said of the login

            async def told(timeout_at: float | None = None) -> None:
                try:
                    await login(timeout_at)
                except KafkaError as error:
                    self._failed(node_id, error)
                    raise

            connection._sasl_authenticate = told  # noqa: SLF001 - as above
        return connection

    def maybe_raise_auth_failure(self, node_id: Any) -> None:
        if self.failure is not None and _denies(self.failure):
            raise self.failure
        super().maybe_raise_auth_failure(node_id)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        transport = await super()._build_transport(node, timeout_at=timeout_at)
        receive = transport._sock_recv  # noqa: SLF001 - it drops what arrived together with the end of the connection

        def received() -> tuple[bytes, KafkaError | None]:
            data, error = receive()
            # The end of the connection is read again, after the broker's answer before it, such as a wrong login.
            return (data, None) if data else (data, error)

        transport._sock_recv = received  # noqa: SLF001 - as above
        return transport

    def _failed(self, node_id: Any, error: KafkaError) -> None:
        # A timeout is less specific than the error before it.
        if self.failure is None or (not _denies(self.failure) and not isinstance(error, _TIMED_OUT)):
            self.failure = error
        if _denies(error):
            self._auth_failures[node_id] = error


class _Selector(NetworkSelector):
    """Bounds a TLS handshake: kafka-python 3.0.12 waits without end for a broker that accepts a connection and then hangs."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._handshake_s = options["request_timeout_ms"] / 1000

    def _wait(self, fileobj: Any, timeout_at: float | None = None) -> Any:
        if timeout_at is None and isinstance(fileobj, ssl.SSLSocket) and fileobj.version() is None:
            timeout_at = time.monotonic() + self._handshake_s
        return super().wait_read(fileobj, timeout_at)

    wait_read = _wait  # the name by which the client calls it


class _Client(KafkaNetClient):
    def __init__(self, **options: Any) -> None:
        net = _Selector(**options)
        manager = _Manager(net, **options)
        # kafka-python 3.0.12 does not hand the option `allow_auto_create_topics` on to the requests that it is about.
        manager.cluster.config["allow_auto_create_topics"] = False
        super().__init__(net=net, manager=manager)

    @property
    def failure(self) -> KafkaError | None:
        """Why a connection failed last; None if none failed."""
        found: KafkaError | None = self._manager.failure
        return found


def _close(admin: KafkaAdminClient) -> None:
    if threading.current_thread().name.startswith(_IO_THREAD):
        # The garbage collector may run in one of the client's threads, which cannot wait for itself.
        threading.Thread(target=admin.close, daemon=True).start()
    else:
        admin.close()


def _silence(address: Address, error: BaseException | None) -> str:
    said = f"the Kafka broker at {address.bootstrap} did not answer in {address.timeout_s} s"
    return said if error is None or isinstance(error, _TIMED_OUT) else f"{said}: {reason(error)}"


def _disconnected(error: BaseException | None) -> bool:
    """Whether the broker itself ended a connection, or answers by another protocol."""
    return isinstance(error, KafkaError) and any(each in reason(error) for each in (_HUNG_UP, _NO_FRAME))


def _hung_up(address: Address) -> str:
    said = (
        f"the Kafka broker at {address.bootstrap} closes connections before it answers; it may ask for another login, or for TLS"
    )
    return f"{said}: check kafka.security, kafka.username and kafka.password"


def _refusal(server: str, timeout_s: int) -> str:
    """Why host:port cannot be reached; empty if it listens."""
    host, _, port = server.rpartition(":")
    invalid = f"invalid server {server!r}; expected host:port"
    if not host or not (port.isascii() and port.isdigit()):
        return invalid
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout_s).close()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    except (ValueError, OverflowError):  # a host that IDNA cannot encode, or a port of too many digits
        return invalid
    return ""
