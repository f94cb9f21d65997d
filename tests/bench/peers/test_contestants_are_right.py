"""Every contestant answers as plain Python does: duplicates counted once, late events counted."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.peers import topics
from bench.peers.catch_up import catch_up
from bench.peers.contestant import Contestant, Setting
from bench.peers.contestants.registry import STREAMING
from bench.peers.events import Shape, generate, values
from bench.peers.provided import Provided, provide
from infra import kafka
from infra.kafka import broker
from infra.process import background
from infra.settings import Settings
from tests.bench.peers import oracle

pytestmark = pytest.mark.slow
EVENTS = 5_000


@pytest.fixture(scope="module")
def provided() -> Provided:
    return provide(lambda _: None, environ=os.environ)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory):
    settings = Settings(state=str(tmp_path_factory.mktemp("peers") / "kafka"))
    with background.starting(settings.folder):
        process = broker.start(settings, environ=os.environ)
    try:
        yield kafka.connect(broker.address(settings)), process.pid
    finally:
        background.stop(settings.folder, process, seconds=20)


@pytest.fixture(scope="module")
def sent(started) -> list[tuple[bytes, bytes]]:
    base = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
    records = list(values(generate(Shape(EVENTS, 50, base))))
    topics.filled(started[0], "requests", records)
    return records


@pytest.mark.parametrize("contestant", STREAMING, ids=lambda one: one.name)
def test_a_contestant_answers_as_plain_python(contestant: Contestant, started, sent, provided: Provided, tmp_path: Path) -> None:
    connection, pid = started
    expected = oracle.view(value for _, value in sent)
    assert sum(number for number, _, _ in expected.values()) < EVENTS
    setting = Setting(
        cores=2,
        memory="1g",
        folder=tmp_path / "run",
        connection=connection,
        topic="requests",
        output=topics.published(connection, f"pages-{contestant.name}"),
        provided=provided,
    )
    found = catch_up(contestant, setting, expected, events=EVENTS, number=0, broker=pid, limit_s=300)
    assert (found.problem, found.differ) == ("", 0)
    assert found.seconds is not None
    assert found.seconds > 0
    assert found.cpu_s is not None
    assert found.cpu_s > 0
