"""Every contestant answers as plain Python does: duplicates counted once, late events counted."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tandem.bench.peers.catch_up import catch_up
from tandem.bench.peers.contestant import Contestant, Setting
from tandem.bench.peers.contestants.archive import ARCHIVE
from tandem.bench.peers.contestants.batch import BATCH, BatchContestant, Job
from tandem.bench.peers.contestants.registry import FRESH, STREAMING
from tandem.bench.peers.contestants.tandem_sink import TANDEM_SINK
from tandem.bench.peers.events import Shape, generate, values
from tandem.bench.peers.freshness import FreshnessPlan, measure
from tandem.bench.peers.provided import Provided, provide
from tandem.bench.peers.recompute import archive, recompute
from tandem.bench.peers.rounds import empty, filled
from tandem.infra import kafka
from tandem.infra.kafka import broker
from tandem.infra.process import background
from tandem.infra.settings import Settings
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
    filled(started[0], "requests", records)
    return records


@pytest.fixture(scope="module")
def job(started, sent, provided: Provided, tmp_path_factory: pytest.TempPathFactory) -> Job:
    del sent
    return archive(setting(started[0], provided, tmp_path_factory.mktemp("archive"), "unused"), repeat=2, limit_s=300)


def setting(
    connection: kafka.BrokerConnection, provided: Provided, folder: Path, output: str, *, topic: str = "requests"
) -> Setting:
    return Setting(
        cores=2,
        memory="1g",
        folder=folder,
        connection=connection,
        topic=topic,
        output=empty(connection, output, own_time=True),
        provided=provided,
        fresh=topic != "requests",
    )


@pytest.mark.parametrize("contestant", STREAMING, ids=lambda one: one.name)
def test_a_contestant_answers_as_plain_python(contestant: Contestant, started, sent, provided: Provided, tmp_path: Path) -> None:
    connection, pid = started
    expected = oracle.view(value for _, value in sent)
    assert sum(number for number, _, _ in expected.values()) < EVENTS
    given = setting(connection, provided, tmp_path / "run", f"pages-{contestant.name}")
    found = catch_up(contestant, given, expected, events=EVENTS, number=0, broker=pid, limit_s=300)
    assert (found.problem, found.differ) == ("", 0)
    assert found.seconds is not None
    assert found.seconds > 0
    assert found.cpu_s is not None
    assert found.cpu_s > 0


@pytest.mark.parametrize("contestant", BATCH, ids=lambda one: one.name)
def test_a_recompute_answers_as_plain_python(contestant: BatchContestant, job: Job, sent, tmp_path: Path) -> None:
    expected = oracle.view(value for _, value in sent)
    own = replace(job, folder=tmp_path / "run")
    found = recompute(contestant, own, expected, events=EVENTS, number=0, limit_s=300)
    assert (found.problem, found.differ) == ("", 0)
    assert found.seconds is not None
    assert found.seconds > 0


@pytest.mark.parametrize("contestant", ARCHIVE, ids=lambda one: one.name)
def test_an_archive_has_every_event(contestant: BatchContestant, started, sent, provided: Provided, tmp_path: Path) -> None:
    expected = oracle.view(value for _, value in sent)
    given = setting(started[0], provided, tmp_path / "archive", f"archive-{contestant.name}")
    found = recompute(contestant, Job(given, (), 1, tmp_path / "run"), expected, events=EVENTS, number=0, limit_s=300)
    assert (found.problem, found.differ) == ("", 0)
    assert found.seconds is not None
    assert found.seconds > 0


@pytest.mark.parametrize("contestant", [*FRESH, TANDEM_SINK], ids=lambda one: one.name)
def test_every_marker_is_seen(contestant: Contestant, started, provided: Provided, tmp_path: Path) -> None:
    connection, pid = started
    topic = empty(connection, f"live-{contestant.name}")
    given = setting(connection, provided, tmp_path / "run", f"fresh-{contestant.name}", topic=topic)
    plan = FreshnessPlan(
        rate=200,
        pages=50,
        warm_up=3,
        warm_up_s=0,
        warm_up_limit_s=200,  # a hot tail answers long before the first commit, for which Java has to start
        window_s=4,
        unasked_s=2,
        mark_every_s=0.2,
        first_limit_s=200,
        limit_s=100,
    )
    found = measure(contestant, given, plan, number=0, broker=pid)
    assert (found.problem, found.differ, found.overdue) == ("", 0, 0)
    assert len(found.delays) >= 10
    assert min(found.delays) > 0
    assert (found.unasked_cpu is not None) == contestant.asked
    assert found.triggers >= 3
