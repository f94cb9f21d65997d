"""A slow, absent or killed broker: the outcome of each record is reported, nothing waits for ever, a retry counts once."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tandem.infra import kafka
from tandem.infra.kafka import broker as embedded
from tandem.infra.process import background
from tandem.infra.settings import KafkaSettings, Settings
from tests.serving.http.sending import Log, ndjson, served
from tests.serving.http.served import Served
from tests.serving.world import hit
from tests.stack import environ

pytestmark = pytest.mark.broker


class Broker:
    """An embedded broker of one's own, in a project's state folder."""

    def __init__(self, state: Path) -> None:
        self.settings = Settings(state=str(state), kafka=KafkaSettings(memory="256m", timeout_s=20))
        self.start()

    def start(self) -> None:
        with background.starting(self.settings.folder):
            self.process = embedded.start(self.settings, environ=environ())

    def tell(self, sign: signal.Signals) -> None:
        os.kill(self.process.pid, sign)

    def end(self) -> None:
        if process := background.running(self.settings.folder, embedded.NAME):
            self.tell(signal.SIGCONT)
            background.stop(self.settings.folder, process, seconds=20)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Log, Path]]:
    folder = tmp_path_factory.mktemp("world")
    broker = Broker(folder / ".tandem")
    try:
        yield broker, Log.made(kafka.connect(embedded.address(broker.settings)), "away"), folder
    finally:
        broker.end()


@pytest.fixture(scope="module")
def server(project: tuple[Broker, Log, Path]) -> Served:
    _, log, folder = project
    # What is lost is given up after so long; what is not has to be acknowledged by then on a busy machine too.
    return served(folder, log, KafkaSettings(timeout_s=10), {"ingest_mb": 1, "timeout_s": 60})


@asynccontextmanager
async def halted(broker: Broker) -> AsyncIterator[None]:
    """The broker's process stands still."""
    broker.tell(signal.SIGSTOP)
    try:
        yield
    finally:
        broker.tell(signal.SIGCONT)


async def send(client: httpx.AsyncClient, source: str, values: list[bytes], key: str | None = None) -> httpx.Response:
    sent = ndjson(values)
    headers = sent["headers"] | ({} if key is None else {"Idempotency-Key": key})
    return await client.post(f"/sources/{source}/events", content=sent["content"], headers=headers)


@pytest.mark.slow
@pytest.mark.anyio
async def test_beyond_the_limit_of_unacknowledged_events_429_says_when_to_retry(
    project: tuple[Broker, Log, Path], server: Served
) -> None:
    broker, log, _ = project
    async with server.client() as client:
        assert (await send(client, "hits", [hit("/", 1)])).status_code == 200
        before = log.ends()
        async with halted(broker):
            first = asyncio.create_task(send(client, "hits", [hit("x" * 900, n) for n in range(800)]))
            while not any(room.handed_over for room in server.server.gateway._rooms):  # noqa: ASYNC110 - it has no event for tests
                await asyncio.sleep(0)
            server.seconds += 0.5
            full = await send(client, "hits", [hit("x" * 900, n) for n in range(800)])
            assert (full.status_code, full.headers["retry-after"]) == (429, "1")
            assert "nothing is written; try again in 1 s" in full.json()["detail"]
        assert (await first).status_code == 200
        assert (await send(client, "hits", [hit("x" * 900, n) for n in range(800)])).status_code == 200
        figures = (await client.get("/metrics")).text
        assert 'tandem_ingest_refused_total{reason="no_room"} 1.0' in figures
        assert "tandem_ingest_under_way_bytes 0.0" in figures
    assert sum(log.ends().values()) - sum(before.values()) == 1600


@pytest.mark.anyio
async def test_accepted_records_are_written_before_the_server_ends(project: tuple[Broker, Log, Path], server: Served) -> None:
    broker, log, _ = project
    before = sum(log.ends().values())
    async with server.client() as client:
        assert (await send(client, "hits", [hit("/", 1)])).status_code == 200
        broker.tell(signal.SIGSTOP)
        under_way = asyncio.create_task(send(client, "hits", [hit("/", n) for n in range(50)]))
        while not any(room.handed_over for room in server.server.gateway._rooms):  # noqa: ASYNC110 - it has no event for tests
            await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.2, broker.tell, signal.SIGCONT)
    assert (await under_way).status_code == 200
    assert sum(log.ends().values()) - before == 51


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_record_whose_acknowledgement_is_lost_is_unknown_and_its_retry_counts_once(
    project: tuple[Broker, Log, Path], server: Served
) -> None:
    """The broker stands still with the records in its socket, and may write them after they were given up."""
    broker, log, _ = project
    values = [hit("/a", n) for n in range(5)]
    source = server.world.project.sources["keyed"]
    async with server.client() as client:
        assert (await send(client, "keyed", values, "first")).status_code == 200
        assert (await send(client, "hits", values)).status_code == 200
        async with halted(broker):
            lost, twice = await asyncio.gather(send(client, "keyed", values, "lost"), send(client, "hits", values))
            assert (lost.status_code, twice.status_code) == (503, 503)
            assert twice.json()["detail"].endswith(
                "records that are sent again count twice, because source 'hits' has no identity that finds duplicates"
            )
            told = lost.json()
            assert {one["outcome"] for one in told["records"]} == {"unknown"}
            assert told["detail"].startswith(
                "of 5 records 0 are written, 0 are not written, and the outcome of 5 is unknown: Kafka says "
            )
            assert told["detail"].endswith("send the same request again: written records count once")
            assert told["min_position"] is None
        again = await send(client, "keyed", values, "lost")
        assert again.status_code == 200, again.text
    written, counted = log.counted(source, "keyed")
    assert counted == 10
    assert 10 <= written <= 15  # of each partition those that were in its socket


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_killed_broker_is_reported_and_comes_back(project: tuple[Broker, Log, Path], server: Served) -> None:
    broker, log, _ = project
    values = [hit("/b", n) for n in range(5)]
    source = server.world.project.sources["keyed"]
    before = log.counted(source, "keyed")[1]
    async with server.client() as client:
        assert (await send(client, "keyed", values, "before")).status_code == 200
        broker.tell(signal.SIGSTOP)
        midway = asyncio.create_task(send(client, "keyed", values, "midway"))
        while not any(room.handed_over for room in server.server.gateway._rooms):  # noqa: ASYNC110 - it has no event for tests
            await asyncio.sleep(0)
        broker.tell(signal.SIGKILL)
        cut_off = await midway
        assert (cut_off.status_code, {one["outcome"] for one in cut_off.json()["records"]}) == (503, {"unknown"})
        while background.running(broker.settings.folder, embedded.NAME):  # noqa: ASYNC110 - until its parent has seen it
            await asyncio.sleep(0.01)
        server.seconds += 2
        gone = await send(client, "keyed", values, "midway")
        assert gone.status_code == 503
        assert gone.json()["detail"].endswith("is not running; start it with `tandem up`; nothing is written")
        assert (await client.get("/views/per_page/rows")).status_code == 200
        await asyncio.to_thread(broker.start)
        back = await send(client, "keyed", values, "midway")
        assert back.status_code == 200, back.text
    assert log.counted(source, "keyed")[1] - before == 10
