"""`tandem feed DIR --follow`: each content of a folder once in the topic, over restarts, kills, renames and files that grow."""

import gzip
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tandem.cli.log import folder_feed
from tandem.cli.log.folder_feed import FolderFeed
from tandem.cli.log.inbox import FolderInbox, Inbox
from tandem.infra import kafka
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.fed_files import FedFiles
from tandem.ledger.log.registry_schemas import schemas_in
from tandem.views.errors import TandemError
from tandem.views.project.project import load
from tests.stack import PYTHONPATH, consumed, environ, kafka_toml

pytestmark = pytest.mark.broker

DEFINITIONS = """
from datetime import datetime
from tandem import Event, Source, View, count{imports}

class Line(Event):
    at: datetime
    n: int

lines = Source(topic="{topic}", event=Line, event_time="at"{options})
hits = View(source=lines, measures={{"n": count()}})
"""


class Followed:
    """A project with a folder that is followed, in this process."""

    def __init__(self, folder: Path, broker: kafka.BrokerConnection, options: str = "", imports: str = "") -> None:
        self.project, self.inbox, self.broker = folder, folder / "inbox", broker
        self.inbox.mkdir(parents=True)
        self.topic = f"{folder.name}-{time.monotonic_ns()}"
        kafka.create(broker, [self.topic], Settings())
        (folder / "definitions.py").write_text(DEFINITIONS.format(topic=self.topic, options=options, imports=imports))
        (folder / "tandem.toml").write_text(kafka_toml(broker))
        self.source = load(folder).sources["lines"]
        self.tables = Tables(str(folder / "tables"))
        self.said: list[str] = []
        self.place: Inbox = FolderInbox(self.inbox)

    @contextmanager
    def open_feed(self) -> Iterator[FolderFeed]:
        """A new run, after what it has to resume."""
        topic = kafka.topic(self.broker, self.topic)
        with kafka.ExactlyOnceAppender(self.broker.address, topic, f"feed.{self.topic}", {}) as appender:
            journal = FedFiles(self.tables, "lines", topic.id)
            schemas = schemas_in(Settings().registry, self.tables)
            feed = FolderFeed(self.source, self.place, topic, appender, journal, schemas, self.said.append)
            feed.resume()
            yield feed

    def run(self) -> FolderFeed:
        """Follow until every file there is sent."""
        with self.open_feed() as feed:
            feed.run(_AfterLooks(3))
        return feed

    def run_until(self, end: int) -> None:
        """Follow until the run is cut, see `cut`."""
        with self.open_feed() as feed:
            cut(feed, end)
            with pytest.raises(CutError):
                feed.run(_AfterLooks(3))

    def end_offsets(self) -> int:
        """The offsets of the topic, of open transactions too."""
        return sum(kafka.ends(self.broker, [kafka.topic(self.broker, self.topic)]).values())

    def sent(self) -> list[int]:
        """The numbers of the events in the topic, in no order."""
        return sorted(json.loads(record.value)["n"] for record in consumed(self.broker, kafka.topic(self.broker, self.topic)))


class CutError(Exception):
    """The end of a run."""


class _AfterLooks(Event):
    """Set after some waits between looks, which take no time."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.left = looks

    def wait(self, timeout: float | None = None) -> bool:
        self.left -= 1
        if self.left == 0:
            self.set()
        return self.is_set()


def rows(*numbers: int) -> str:
    return "".join(f'{{"at": "2026-11-01T00:00:00Z", "n": {number}}}\n' for number in numbers)


@pytest.fixture
def followed(tmp_path: Path, broker: kafka.BrokerConnection) -> Followed:
    return Followed(tmp_path / "folder-feed", broker)


def test_each_content_is_sent_once_over_restarts_renames_and_copies(followed: Followed) -> None:
    (followed.inbox / "a.jsonl").write_text(rows(1, 2))
    (followed.inbox / "b.jsonl.gz").write_bytes(gzip.compress(rows(3).encode()))
    (followed.inbox / ".c.jsonl").write_text(rows(99))
    assert followed.run().sent == 3
    assert followed.run().sent == 0
    (followed.inbox / "a.jsonl").rename(followed.inbox / "a.jsonl.1")
    shutil.copy(followed.inbox / "b.jsonl.gz", followed.inbox / "again.jsonl.gz")
    (followed.inbox / "a.jsonl").write_text(rows(4))
    assert followed.run().sent == 1
    assert followed.sent() == [1, 2, 3, 4]
    assert sum("which was sent, so it is left out" in line for line in followed.said) == 2


def test_lines_that_a_file_gains_are_sent_alone(followed: Followed) -> None:
    log = followed.inbox / "app.jsonl"
    log.write_text(rows(1, 2))
    followed.run()
    log.write_text(rows(1, 2, 3))
    log.rename(followed.inbox / "app.jsonl.1")
    log.write_text(rows(4))
    followed.run()
    log.write_text(rows(4) + rows(5).rstrip("\n"))
    followed.run()
    assert followed.sent() == [1, 2, 3, 4, 5]
    log.write_text(rows(4, 5, 6))
    with pytest.raises(TandemError, match=r"app\.jsonl begins with the content of .*, which was sent, and does not go on"):
        followed.run()
    assert followed.sent() == [1, 2, 3, 4, 5]


def test_a_file_that_cannot_be_sent_stops_before_its_first_record(followed: Followed) -> None:
    for text, sentence in (
        ("id,at\n" * 5, "5 of the first 5 records of"),
        (rows(1) + '{"n": "' + "x" * 1_100_000 + '"}\n', "line 2 of .* has 1100009 bytes; a record has at most"),
    ):
        (followed.inbox / "a.jsonl").write_text(text)
        with pytest.raises(TandemError, match=sentence):
            followed.run()
    (followed.inbox / "a.jsonl").write_text(rows(1))
    followed.run()
    assert followed.sent() == [1]


def test_a_run_ends_at_any_step_and_the_next_one_continues(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each commit and each row of the journal, before and after it."""
    monkeypatch.setattr(folder_feed, "_MOST_RECORDS", 3)
    chance, number, expected = random.Random(5), 0, []
    for end in range(8):
        for _ in range(2):
            numbers = range(number, number + chance.randrange(1, 9))
            number = numbers.stop
            expected += numbers
            (followed.inbox / f"{number}.jsonl").write_text(rows(*numbers))
        followed.run_until(end)
    followed.run()
    assert followed.sent() == expected
    assert followed.run().sent == 0


def cut(feed: FolderFeed, end: int) -> None:
    """End a run as a kill would: before or after a commit, or before or after a row of the journal."""
    step, after = (feed.appender, "append") if end % 4 < 2 else (feed.journal, "add"), end % 2
    (port, name), run = step, getattr(*step)
    left = [1 + end // 4]

    def ending(*words: Any, **named: Any) -> None:
        left[0] -= 1
        if left[0] or after:
            run(*words, **named)
        if not left[0]:
            raise CutError

    setattr(port, name, ending)


def test_a_file_that_is_gone_in_the_middle_is_named_once(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_feed, "_MOST_RECORDS", 2)
    (followed.inbox / "a.jsonl").write_text(rows(1, 2, 3))
    followed.run_until(1)
    (followed.inbox / "a.jsonl").unlink()
    (followed.inbox / "b.jsonl").write_text(rows(4))
    with pytest.raises(TandemError, match=r"a\.jsonl was changed or removed after 2 records of it; to send the others"):
        followed.run()
    followed.run()
    assert followed.sent() == [1, 2, 4]


def test_a_second_run_ends_the_first(followed: Followed) -> None:
    with followed.open_feed() as first, followed.open_feed():
        (followed.inbox / "a.jsonl").write_text(rows(1))
        with pytest.raises(kafka.ProducerFenced, match="another process appends"):
            first.run(_AfterLooks(3))
    followed.run()
    assert followed.sent() == [1]


@pytest.mark.slow  # three processes; the steps of a run are cut above
def test_the_command_follows_until_it_is_killed(tmp_path: Path, broker: kafka.BrokerConnection) -> None:
    """Killed twice in the middle of a transaction, and stopped once all is sent; records have keys."""
    followed = Followed(tmp_path / "killed-feed", broker, options=', key="n % 7"')
    (followed.inbox / "one.jsonl").write_text(rows(*range(12_000)))
    (followed.inbox / "two.jsonl").write_text(rows(*range(12_000, 24_000)))
    command = [sys.executable, "-m", "tandem.cli", "feed", "inbox", "--follow", "--source", "lines", "--json"]
    for least, end in ((3_000, signal.SIGKILL), (17_000, signal.SIGKILL), (24_000, signal.SIGTERM)):
        with subprocess.Popen(
            command, cwd=followed.project, env={**environ(), "PYTHONPATH": PYTHONPATH}, stdout=subprocess.PIPE, text=True
        ) as process:
            while followed.end_offsets() < least or (end == signal.SIGTERM and followed.sent() != [*range(24_000)]):
                assert process.poll() is None
            process.send_signal(end)
            shown, _ = process.communicate(timeout=300)
    assert (process.returncode, json.loads(shown)["source"]) == (0, "lines")
    assert followed.sent() == [*range(24_000)]
