"""Kafka's own command-line tools, each in its own JVM: the oracle of the log's content."""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tandem.infra import folders, kafka
from tandem.infra.java import jar_fetch, jars, java_home
from tests.stack import environ

_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
# Long enough that no record of a test has one of them by chance.
_FIELD, _RECORD, _HEADER, _NULL = "<field:4c1f>", "<record:4c1f>", "<header:4c1f>", "<null:4c1f>"
_PRINTED: Final = ("timestamp", "partition", "offset", "headers", "key", "value")
"""In the order in which the console consumer prints them."""
_PATIENCE_MS: Final = 60_000


@dataclass(frozen=True)
class Tools:
    """kafka-get-offsets, kafka-consumer-groups, kafka-topics, kafka-console-consumer and kafka-console-producer of one broker."""

    address: kafka.Address

    def starts(self, topic: kafka.Topic) -> dict[tuple[str, int], int]:
        """The first offset of each partition."""
        return self._offsets(topic, "earliest")

    def ends(self, topic: kafka.Topic) -> dict[tuple[str, int], int]:
        """The offset after the last record of each partition, committed or not."""
        return self._offsets(topic, "latest")

    def lags(self, group: str) -> dict[tuple[str, int], tuple[int, int]]:
        """The committed offset and the lag of each partition of a group."""
        said = self._run("consumer.group.ConsumerGroupCommand", "--describe", "--offsets", "--group", group).decode()
        rows = re.findall(rf"^{re.escape(group)} +(\S+) +(\d+) +(\d+) +\d+ +(\d+) ", said, re.MULTILINE)
        return {(topic, int(number)): (int(offset), int(lag)) for topic, number, offset, lag in rows}

    def topic_id(self, name: str) -> str:
        """The id of a topic."""
        said = self._run("TopicCommand", "--describe", "--topic", name).decode()
        (found,) = re.findall(rf"^Topic: {re.escape(name)}\tTopicId: (\S+)", said, re.MULTILINE)
        return str(found)

    def records(self, topic: kafka.Topic, partition: int, most: int) -> dict[int, kafka.Record]:
        """The first committed records of a partition, by their offsets; waits a minute where there are fewer."""
        printing = [f"print.{name}=true" for name in _PRINTED]
        marks = {"key": _FIELD, "line": _RECORD, "headers": _HEADER}
        properties = [*printing, *(f"{name}.separator={mark}" for name, mark in marks.items()), f"null.literal={_NULL}"]
        of_records = ["--topic", topic.name, "--partition", str(partition), "--offset", "earliest"]
        options = [*of_records, "--isolation-level", "read_committed"]
        options += ["--max-messages", str(most), "--timeout-ms", str(_PATIENCE_MS)]
        for one in properties:
            options += ["--formatter-property", one]
        # Behind the last record the tool logs where it waited in vain.
        *printed, _ = self._run("consumer.ConsoleConsumer", *options).split(_RECORD.encode())
        return dict(map(_record, printed))

    def produce(self, topic: kafka.Topic, records: Sequence[tuple[str | None, str]]) -> None:
        """Send keys and values, which are text without ends of lines, as the producer reads them from a terminal."""
        lines = "".join(f"{_NULL if key is None else key}{_FIELD}{value}\n" for key, value in records)
        options = ["--topic", topic.name]
        for one in ("parse.key=true", f"key.separator={_FIELD}", f"null.marker={_NULL}"):
            options += ["--reader-property", one]
        self._run("ConsoleProducer", *options, typed=lines.encode())

    def _offsets(self, topic: kafka.Topic, time: str) -> dict[tuple[str, int], int]:
        said = self._run("GetOffsetShell", "--topic", topic.name, "--time", time).decode()
        found = [line.split(":") for line in said.splitlines()]
        assert {name for name, *_ in found} == {topic.name}
        return {(topic.id, int(number)): int(offset) for _, number, offset in found}

    def _run(self, tool: str, *options: str, typed: bytes = b"") -> bytes:
        classpath = ":".join(map(str, (*jars.paths("broker", environ=environ()), *_jars())))
        command = [java_home.find(environ()).command, *_JVM, "-cp", classpath, f"org.apache.kafka.tools.{tool}"]
        with tempfile.NamedTemporaryFile("w", suffix=".properties") as login:
            login.writelines(f"{name}={value}\n" for name, value in kafka.java_options(self.address).items())
            login.flush()
            command += ["--bootstrap-server", self.address.bootstrap, "--command-config", login.name, *options]
            done = subprocess.run(command, input=typed, capture_output=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@cache
def _jars() -> tuple[Path, ...]:
    """The jars of the tools, fetched once; a test that needs them is skipped where they are not there and cannot be fetched."""
    lists, folder, environment = Path(__file__).parent, jars.folder(environ()) / "tests", environ()
    found = java_home.find(environment)
    store = folder / "cacerts" if found.home == java_home.packaged_home(environment) else None
    try:
        jar_fetch.fetch(
            folder, folders.cache(environment), java=found.command, trust_store=store, environ=environment, lists=lists
        )
    except jar_fetch.FetchFailed as error:
        pytest.skip(str(error))
    return tuple(folder / path for path in jar_fetch.pinned(lists))


def _record(printed: bytes) -> tuple[int, kafka.Record]:
    stamp, _, offset, headers, key, value = printed.split(_FIELD.encode())
    told = [] if headers == b"NO_HEADERS" else headers.split(_HEADER.encode())
    named = tuple((name.decode(), _known(data)) for name, _, data in (one.partition(b":") for one in told))
    return _number(offset), kafka.Record(_number(stamp), _known(key), _known(value), named)


def _number(printed: bytes) -> int:
    """That of "Offset:7"."""
    return int(printed.partition(b":")[2])


def _known(printed: bytes) -> bytes | None:
    return None if printed == _NULL.encode() else printed
