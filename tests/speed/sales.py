"""A small project for tests of the speed layer: sales with an identity, and their expected answers in plain Python."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep

import msgspec
from pyspark.sql import SparkSession

from tandem.infra import kafka
from tandem.infra.settings import Settings, SpeedSettings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.follower import Follower
from tandem.ledger.realtime.tiling import end
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.speed.process import speed_layer
from tandem.views.project.project import Project, load_files
from tests.stack import stack_settings

START = datetime(2026, 11, 1, tzinfo=UTC)

DEFINITIONS = """
from datetime import datetime, timedelta
from tandem import Event, Source, View, count, maximum, total, tumbling

class Sale(Event):
    id: int
    at: datetime
    shop: str
    amount: int

sales = Source(topic="{topic}", event=Sale, event_time="at", identity=("id",))
per_minute = View(
    source=sales, keys={{"shop": "shop"}}, window=tumbling(minutes=1), measures={{"n": count(), "sum": total("amount")}}
)
per_shop = View(source=sales, keys={{"shop": "shop"}}, measures={{"n": count(), "most": maximum("amount")}})
SOURCES = (sales,)
VIEWS = (per_minute, per_shop)
"""

ROUTINE = ("following every source", "folding records")
"""What the layer says however it goes."""


def project_files(topic: str = "sales") -> dict[str, bytes]:
    """The stored files of the project, with its source in this topic."""
    return {"definitions.py": DEFINITIONS.format(topic=topic).encode(), "tandem.toml": b""}


def sale(number: int, *, seconds: float = 0, shop: str = "a", amount: int = 1) -> bytes:
    """One record's value."""
    at = START + timedelta(seconds=seconds)
    return json.dumps({"id": number, "at": at.isoformat(), "shop": shop, "amount": amount}).encode()


def some(numbers: Sequence[int]) -> list[bytes]:
    """Sales whose every part follows from their number."""
    return [sale(number, seconds=number * 7 % 600, shop="abc"[number % 3], amount=number) for number in numbers]


def per_minute(numbers: Sequence[int]) -> dict[tuple[str, str], tuple[int, int]]:
    """What `per_minute` answers for `some` of these numbers, each counted once however often it is there."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for number in set(numbers):
        start = START + timedelta(minutes=number * 7 % 600 // 60)
        key = (start.strftime("%Y-%m-%dT%H:%M:%SZ"), "abc"[number % 3])
        n, total = found.get(key, (0, 0))
        found[key] = (n + 1, total + number)
    return found


def answered(settings: Settings) -> dict[tuple[str, str], tuple[int, int]]:
    """What the merged `per_minute` answers now."""
    reader = Reader(Tables.of(settings))
    reader.refresh()
    rows = given(reader.answer("per_minute")).rows()
    return {(row["window_start"], row["shop"]): (row["n"], row["sum"]) for row in rows}


def wait_for(condition: Callable[[], bool], *, seconds: float = 120) -> None:
    """Wait until the condition holds; fail if it does not in time."""
    deadline = monotonic() + seconds
    while not condition():
        assert monotonic() < deadline, "what was waited for did not come"
        sleep(0.05)


def commits(settings: Settings, release: int = 1) -> tuple[Commit, ...]:
    """What the realtime table holds."""
    return Follower(Tables.of(settings), release, "sales").poll()


def folded(settings: Settings, release: int = 1) -> Position:
    """How far the realtime table reaches."""
    return end(commits(settings, release)) or LOG_START


def log_end(broker: kafka.BrokerConnection, topic: kafka.Topic) -> Position:
    return Position.of(kafka.ends(broker, [topic]))


def wait_until_folded(settings: Settings, broker: kafka.BrokerConnection, topic: kafka.Topic, release: int = 1) -> None:
    wait_for(lambda: folded(settings, release) == log_end(broker, topic))


def total(settings: Settings, what: str) -> int:
    return sum(getattr(commit.counts, what) for commit in commits(settings))


@dataclass
class Running:
    """A speed layer in a thread of this process; `said` is what it told the user, `error` what ended it.

    Its clock is `ahead` of the machine's.
    """

    settings: Settings
    stop: Event = field(default_factory=Event)
    ready: Event = field(default_factory=Event)
    said: list[str] = field(default_factory=list)
    ahead: timedelta = timedelta(0)
    error: BaseException | None = None
    thread: Thread | None = None

    def start(self, spark: SparkSession, project: Project) -> None:
        def run() -> None:
            try:
                speed_layer.run(
                    self.settings,
                    project=lambda: project,
                    session=lambda: spark,
                    stop=self.stop,
                    now=lambda: datetime.now(UTC) + self.ahead,
                    say=lambda text: None if text in ROUTINE else self.said.append(text),
                    warn=self.said.append,
                    ready=self.ready.set,
                )
            except BaseException as error:  # noqa: BLE001 - for the test to look at
                self.error = error

        self.thread = Thread(target=run, daemon=True)
        self.thread.start()
        wait_for(lambda: self.ready.is_set() or self.error is not None)

    def join(self) -> None:
        assert self.thread is not None
        self.thread.join(60)
        assert not self.thread.is_alive()


@contextmanager
def running(spark: SparkSession, settings: Settings, topic: kafka.Topic) -> Iterator[Running]:
    """A speed layer that is ready; afterwards it is stopped, and must have ended without an error."""
    one = Running(settings)
    one.start(spark, load_files(project_files(topic.name)))
    if one.error is not None:
        raise one.error
    try:
        yield one
    finally:
        one.stop.set()
        one.join()
    if one.error is not None:
        raise one.error


def settings_for(connection: kafka.BrokerConnection, state: Path, **speed: int) -> Settings:
    """Settings of a project of its own at the shared broker."""
    return stack_settings(connection, state, speed=msgspec.structs.replace(SpeedSettings(), **speed))
