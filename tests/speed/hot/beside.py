"""A speed layer, a hot tail and a server in one process, without a JVM and a broker."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tandem.infra import kafka
from tandem.infra.settings import Settings, SpeedSettings
from tandem.ledger.hot.chain import HotCommits
from tandem.ledger.hot.feed import HotFeed
from tandem.ledger.log.positions import Position
from tandem.ledger.publish import publications
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.realtime.commits import Commit
from tandem.serving.connection import Connection
from tandem.serving.memory.store import Store
from tandem.speed.hot.follow import HotFollower
from tandem.views.project.project import load_files
from tests import one_process
from tests.one_process import MemoryBroker
from tests.speed.sales import commits, per_minute
from tests.speed.test_in_one_process import Layer

PARTITIONS = 3


@dataclass
class Beside:
    """A server beside a layer: its hot tail, whose clock is `seconds`, and its answers."""

    layer: Layer
    seconds: float = 0.0
    _hot: HotFollower | None = None
    feed: HotFeed = field(init=False)
    connection: Connection = field(init=False)

    def __post_init__(self) -> None:
        self.feed = HotFeed(lambda: self.seconds)
        self.connection = Connection(Store(self.layer.tables, 1, hot=self.feed))

    @property
    def hot(self) -> HotFollower:
        assert self._hot is not None
        return self._hot

    @property
    def hot_commits(self) -> HotCommits:
        return self.feed.commits(1, "sales")

    def start(self) -> None:
        """Another process of hot tails, which begins where commits end."""
        release = Releases(self.layer.tables).load(1)
        project = load_files(release.files)
        self.feed.disconnect("it has ended")
        self._hot = HotFollower(
            self.layer.settings,
            self.layer.tables,
            kafka.connect(one_process.ADDRESS),
            release,
            project.sources["sales"],
            project.views,
            self.layer.now,
            self.feed.apply,
            lambda: self.seconds,
            cpu=lambda: self.seconds,
        )
        self._hot.begin()

    def step(self, *, later: float = 6.0) -> None:
        """The process reads, looks at the commits and compares, unless less than 5 seconds have passed."""
        self.seconds += later
        self.hot.step(0)

    @property
    def position(self) -> Position:
        """Up to where answers count."""
        self.connection.refresh()
        return self.connection.snapshot().pinned.snapshot.positions["sales"]

    def check(self) -> None:
        """The answers are those of the log below their position."""
        position = self.position
        rows = self.connection.view("per_minute").rows()
        found = {(row["window_start"], row["shop"]): (row["n"], row["sum"]) for row in rows}
        numbers = [
            json.loads(row["value"])["id"]
            for partition, rows_ in self.layer.topic.rows.items()
            for row in rows_[: position.get((self.layer.topic.topic.id, partition), 0)]
            if row is not None and row["value"].startswith(b"{")
        ]
        assert found == per_minute(numbers)


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layer:
    """A layer that has not started."""
    broker = MemoryBroker()
    broker.stand_in(monkeypatch)
    one_process.speed_stands_in(monkeypatch, broker)
    one_process.hot_stands_in(monkeypatch, broker)
    settings = Settings(state=str(tmp_path), speed=SpeedSettings(max_events=25, compact_every=3))
    return Layer(broker, broker.new_topic(partitions=PARTITIONS), settings)


@pytest.fixture
def beside(layer: Layer) -> Beside:
    """A layer that has started, and a server whose hot tail has not."""
    layer.start()
    return Beside(layer)


def last(beside: Beside) -> Commit:
    return [commit for commit in commits(beside.layer.settings) if not commit.mark][-1]


def promote(layer: Layer) -> None:
    """Another release of the same definitions is live."""
    release = Releases(layer.tables).load(1)
    files = {**release.files, "tandem.toml": b"# changed"}
    other = Releases(layer.tables).store(files, sources=release.sources, views=release.views, by="test", at=layer.now())

    def promoted(parent: publications.Publication | None) -> publications.Publication:
        assert parent is not None
        return replace(parent, release=other.number, kind="promote")

    Publications(layer.tables).publish(promoted)


def away(text: str) -> Callable[..., None]:
    def fails(*_: object, **__: object) -> None:
        raise kafka.NoBroker(text)

    return fails
