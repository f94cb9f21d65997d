"""Options of Kafka's clients that a project may set, and whether the settings of a login are complete."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from tandem.infra.settings.toml_tables.kafka import KafkaSettings
from tandem.views.errors import listed

_INT: Final = 2**31 - 1
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class ClientOption:
    """An option's name in each client; None where the client lacks it. `valid` describes the values.

    `python` is kafka-python, which asks for topics and offsets; `native` is librdkafka, which sends and reads records; `java` is
    Spark's client.
    """

    python: str | None
    native: str | None
    java: str | None
    valid: str
    accepts: Callable[[str], bool]


def _number(python: str | None, native: str | None, java: str | None, *, least: int, most: int) -> ClientOption:
    """An option whose values from `least` to `most` all of these clients take."""

    def accepts(text: str) -> bool:
        return text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most

    return ClientOption(python, native, java, f"a whole number from {least} to {most}", accepts)


def _text(python: str | None, native: str | None, java: str | None) -> ClientOption:
    return ClientOption(python, native, java, "a text", bool)


def _word(python: str | None, native: str | None, java: str | None, *words: str) -> ClientOption:
    return ClientOption(python, native, java, "one of " + ", ".join(words), words.__contains__)


OPTIONS: Final = {
    "batch.size": _number(None, "batch.size", None, least=1, most=_INT),
    "client.dns.lookup": _word(
        "client_dns_lookup",
        "client.dns.lookup",
        "client.dns.lookup",
        "use_all_dns_ips",
        "resolve_canonical_bootstrap_servers_only",
    ),
    "client.id": _text("client_id", "client.id", "client.id"),
    "client.rack": _text(None, "client.rack", "client.rack"),
    "compression.type": _word(None, "compression.type", None, "none", "gzip", "snappy", "lz4", "zstd"),
    "connections.max.idle.ms": _number(
        "connections_max_idle_ms", "connections.max.idle.ms", "connections.max.idle.ms", least=0, most=_INT
    ),
    "fetch.max.bytes": _number(None, "fetch.max.bytes", "fetch.max.bytes", least=10**6, most=_INT - 512),
    "linger.ms": _number(None, "linger.ms", None, least=0, most=300),
    "max.partition.fetch.bytes": _number(None, "max.partition.fetch.bytes", "max.partition.fetch.bytes", least=1, most=10**9),
    "metadata.max.age.ms": _number(
        "metadata_max_age_ms", "topic.metadata.refresh.interval.ms", "metadata.max.age.ms", least=0, most=3_600_000
    ),
    "receive.buffer.bytes": _number(
        "receive_buffer_bytes", "socket.receive.buffer.bytes", "receive.buffer.bytes", least=0, most=10**8
    ),
    "reconnect.backoff.ms": _number("reconnect_backoff_ms", "reconnect.backoff.ms", "reconnect.backoff.ms", least=0, most=1_000),
    "send.buffer.bytes": _number("send_buffer_bytes", "socket.send.buffer.bytes", "send.buffer.bytes", least=0, most=10**8),
    "socket.connection.setup.timeout.ms": _number(
        None, "socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.ms", least=1_000, most=_INT
    ),
}
"""By the names of Kafka's Java clients. Options on which exactness, the login or time limits depend are left out.

Bounds are librdkafka's, with what Tandem sets beside them: it reconnects after a second at most, an append for a request may have
400 ms, and a fetch has room for a record of the client's own limit.
"""


def option_fault(kafka: KafkaSettings) -> str | None:
    """Why these options are invalid; None if they are valid."""
    for name, value in kafka.options.items():
        if name not in OPTIONS:
            return f"kafka.options: unknown option '{name}'; options: {listed(name, OPTIONS, limit=len(OPTIONS))}"
        if not OPTIONS[name].accepts(value):
            return f"kafka.options: '{name}' = {value!r} is not valid; expected {OPTIONS[name].valid}"
    return None


def login_fault(kafka: KafkaSettings) -> str | None:
    """Why no client can log in with these settings, whatever the broker; None if they are complete."""
    if bool(kafka.certificate_file) != bool(kafka.key_file):
        there, missing = ("certificate", "key") if kafka.certificate_file else ("key", "certificate")
        return f"kafka.{there}_file needs kafka.{missing}_file: a client shows a certificate and proves it by the key"
    if kafka.certificate_file and kafka.security not in ("ssl", "sasl_ssl"):
        return f"kafka.certificate_file needs kafka.security = ssl or sasl_ssl, and it is {kafka.security}"
    if kafka.mechanism == "OAUTHBEARER" and kafka.security.startswith("sasl"):
        return _token_fault(kafka)
    if kafka.login_url:
        return "kafka.login_url needs kafka.mechanism = OAUTHBEARER and kafka.security = sasl_ssl"
    return None


def _token_fault(kafka: KafkaSettings) -> str | None:
    needed = {"login_url": kafka.login_url, "username": kafka.username, "password": kafka.password}
    if missing := [f"kafka.{name}" for name, value in needed.items() if not value]:
        return f"kafka.mechanism = OAUTHBEARER needs {' and '.join(missing)}"
    address = urlsplit(kafka.login_url)
    if address.scheme != "https" and not (address.scheme == "http" and address.hostname in _LOOPBACK):
        return f"kafka.login_url = {kafka.login_url!r} is not valid; expected an address with https, or one of loopback"
    return None
