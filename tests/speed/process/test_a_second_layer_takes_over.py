"""Two speed layers of one bucket, as on two machines: each has a state folder, and so lock files, of its own.

The second stands by. It takes over when the first is killed, and when the first stands still for longer than its lease; then the
first wakes and ends with a sentence. Meanwhile events arrive, some of them twice, and each is counted once.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tandem.cli.demo.bucket import own_bucket
from tandem.infra import kafka
from tandem.infra.settings import Settings
from tandem.infra.settings.loader import load
from tandem.ledger.delta.addresses import SPEED, Tables
from tandem.ledger.delta.one_writer import write_leases
from tests.speed.sales import answered, folded, log_end, per_minute, project_files, some, wait_for, wait_until_folded
from tests.stack import PYTHONPATH, environ, kafka_toml, new_topic, produce

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(1800)]

PATIENCE_S = 300


@dataclass
class Machine:
    """A state folder, and the processes of a speed layer that ran with it."""

    project: Path
    name: str
    variables: Mapping[str, str]
    runs: list[subprocess.Popen[bytes]] = field(default_factory=list)
    log: Path = Path()

    def start(self) -> None:
        command = [sys.executable, "-P", "-m", "tandem.cli", "speed", "--project", str(self.project)]
        variables = {**self.variables, "TANDEM_STATE": str(self.project.parent / self.name), "PYTHONPATH": PYTHONPATH}
        self.log = self.project.parent / f"{self.name}-{len(self.runs)}.log"
        with self.log.open("wb") as log:
            self.runs.append(subprocess.Popen(command, env=variables, stdout=log, stderr=log, start_new_session=True))

    def says(self, words: str) -> bool:
        assert self.runs[-1].poll() is None, self.log.read_text()
        return words in self.log.read_text()

    def signal(self, number: int) -> None:
        """To Python, Spark's JVM and its workers, as when the machine stops."""
        os.killpg(self.runs[-1].pid, number)


@dataclass
class Feed:
    """Sales that arrive all the time; every tenth record of the last ones arrives again."""

    broker: kafka.BrokerConnection
    topic: kafka.Topic
    fed: int = 0
    done: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.done.wait(0.2):
            new = range(self.fed, self.fed + 20)
            produce(self.broker, self.topic, some(new), partition=self.fed // 20 % 2)
            produce(self.broker, self.topic, some(range(max(0, self.fed - 20), self.fed, 10)), partition=0)
            self.fed = new.stop

    @contextmanager
    def flowing(self) -> Iterator[None]:
        self.done.clear()
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self.done.set()
            thread.join()


def seconds_until(condition: Callable[[], bool]) -> float:
    began = time.monotonic()
    wait_for(condition, seconds=PATIENCE_S)
    return time.monotonic() - began


def exact(settings: Settings, feed: Feed) -> None:
    wait_until_folded(settings, feed.broker, feed.topic)
    assert answered(settings) == per_minute(range(feed.fed))


def holder(settings: Settings) -> int:
    record = write_leases.read(Tables.of(settings), SPEED)
    assert record is not None
    return record.owner.pid


def test_a_second_speed_layer_takes_over_and_counts_nothing_twice(
    tmp_path: Path, broker: kafka.BrokerConnection, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic(broker)
    project = tmp_path / "project"
    project.mkdir()
    for name, content in project_files(topic.name).items():
        (project / name).write_bytes(content)
    (project / "tandem.toml").write_text(kafka_toml(broker) + '[spark]\nmaster = "local[1]"\ndriver_memory = "512m"\n')
    feed = Feed(broker, topic)
    with ExitStack() as stack:
        variables = {**environ(), **stack.enter_context(own_bucket(os.environ, tmp_path / "s3.log"))}
        settings = load(project, {**variables, "TANDEM_STATE": str(tmp_path / "reader")})
        first, second = (Machine(project, name, variables) for name in ("first", "second"))
        for machine in (first, second):
            stack.callback(lambda machine=machine: [_end(one) for one in machine.runs])
        first.start()
        wait_for(lambda: first.says("following every source"), seconds=PATIENCE_S)
        second.start()
        wait_for(lambda: second.says("standing by: waiting for tandem speed"), seconds=PATIENCE_S)
        with feed.flowing():
            wait_for(lambda: feed.fed > 200, seconds=PATIENCE_S)
            first.signal(signal.SIGKILL)
            at = folded(settings)
            killed_s = seconds_until(lambda: folded(settings) != at)
        assert holder(settings) == second.runs[-1].pid
        exact(settings, feed)
        first.start()
        wait_for(lambda: first.says("standing by: waiting for tandem speed"), seconds=PATIENCE_S)
        with feed.flowing():
            wait_for(lambda: folded(settings) != log_end(broker, topic), seconds=PATIENCE_S)
            second.signal(signal.SIGSTOP)
            at = folded(settings)
            stopped_s = seconds_until(lambda: folded(settings) != at)
            assert holder(settings) == first.runs[-1].pid
            second.signal(signal.SIGCONT)
            assert second.runs[-1].wait(PATIENCE_S) != 0
        ended = second.log.read_text()
        assert "of 'speed' tables was" in ended or "another writer has claimed" in ended, ended
        exact(settings, feed)
        assert first.runs[-1].poll() is None
    with capsys.disabled():
        sys.stdout.write(f"\nno commit for {killed_s:.0f} s after a kill, for {stopped_s:.0f} s after a stop; {feed.fed} sales\n")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
