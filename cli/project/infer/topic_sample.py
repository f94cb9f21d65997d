"""Some values of a Kafka topic: from the start and from the end of each partition."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from tandem.infra import kafka, settings
from tandem.infra.settings import Settings
from tandem.views.errors import TandemError
from tandem.views.source.formats.schema_registry import SCHEMA_ID_HEADER

_EACH: Final = 500
"""The most records that are read from the start of a partition, and from its end."""
_MOST_PARTITIONS: Final = 8
_MOST_BYTES: Final = 8 << 20


@dataclass(frozen=True)
class TopicSample:
    """The values of a topic in the order of its partitions; `settings` are those with which it was read.

    `schema_ids` are what each record's header says about its schema; empty without such a header. `keys` are the records' keys.
    """

    topic: str
    values: tuple[bytes, ...]
    schema_ids: tuple[bytes, ...]
    settings: Settings
    keys: tuple[bytes | None, ...] = ()

    def toml(self) -> str:
        """The settings of a project at this broker, without its password."""
        broker = self.settings.kafka
        lines = ["[kafka]", f'bootstrap = "{broker.bootstrap}"']
        if broker.security != "plaintext":
            lines.append(f'security = "{broker.security}"')
        if broker.security.startswith("sasl"):
            lines += [f'mechanism = "{broker.mechanism}"', f'username = "{broker.username}"']
            lines.append("# The password is in the environment variable TANDEM_KAFKA_PASSWORD.")
        if broker.ca_file:
            lines.append(f'ca_file = "{broker.ca_file}"')
        return "\n".join(lines) + "\n"


def sample_topic(address: str, environ: Mapping[str, str]) -> TopicSample:
    """The values of `kafka://host:port/topic`; logins are those of the environment variables TANDEM_KAFKA_....

    Raises TandemError for another address, NoBroker, BrokerRefused, NoTopic.
    """
    bootstrap, name = _parts(address)
    of = settings_without_project({**environ, "TANDEM_KAFKA_BOOTSTRAP": bootstrap})
    connection = kafka.connect(kafka.outside(of))
    topics = kafka.describe(connection, [name])
    if name not in topics:
        raise kafka.NoTopic(f"topic {name!r} does not exist at {bootstrap}; --from reads a topic that has records")
    starts, ends = kafka.starts(connection, topics.values()), kafka.ends(connection, topics.values())
    chosen = [partition for partition in sorted(ends) if ends[partition] > starts[partition]][:_MOST_PARTITIONS]
    first = {partition: starts[partition] for partition in chosen}
    last = {partition: max(starts[partition] + _EACH, ends[partition] - _EACH) for partition in chosen}
    last = {partition: offset for partition, offset in last.items() if offset < ends[partition]}
    sampled: list[tuple[bytes, bytes, bytes | None]] = []
    for offsets in (first, last):
        for records in kafka.records(connection, topics.values(), offsets, most=_EACH).values():
            sampled.extend((record.value, _schema_id(record), record.key) for record in records if record.value)
    sampled = sampled[: _number_that_fits([value for value, *_ in sampled])]
    values = [value for value, *_ in sampled]
    if not values:
        raise TandemError(
            f"topic {name!r} at {bootstrap} has no records with a value from which fields could be guessed", code="file-unusable"
        )
    schema_ids, keys = tuple(identifier for _, identifier, _ in sampled), tuple(key for *_, key in sampled)
    return TopicSample(name, tuple(values), schema_ids, of, keys)


def _schema_id(record: kafka.Record) -> bytes:
    return next((value or b"" for name, value in reversed(record.headers) if name == SCHEMA_ID_HEADER), b"")


def _number_that_fits(values: Sequence[bytes]) -> int:
    """How many of the values a sample may hold: at least one, and no more bytes than its bound."""
    fitting = sum(total <= _MOST_BYTES for total in accumulate(map(len, values)))
    return max(1, fitting)


def settings_without_project(environ: Mapping[str, str]) -> Settings:
    """The settings by environment variables alone. Raises SettingsError."""
    with tempfile.TemporaryDirectory() as folder:
        return settings.load(Path(folder), environ)


def _parts(address: str) -> tuple[str, str]:
    """The brokers and the topic of an address."""
    parts = urlsplit(address)
    topic = unquote(parts.path.strip("/"))
    if not parts.netloc or not topic or '"' in address:
        raise TandemError(f"--from {address}: expected kafka://HOST:PORT/TOPIC", code="usage-invalid")
    return parts.netloc, topic
