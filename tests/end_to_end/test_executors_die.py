"""An executor of a cluster is killed in the middle of a task of each kind: the run goes on elsewhere, and no answer changes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tandem.cli.demo import other_host, spark_cluster
from tandem.cli.demo.other_host import OtherHost
from tandem.cli.demo.spark_cluster import Cluster
from tandem.infra import kafka
from tandem.infra.folders import child_environment
from tests.stack import environ, kafka_toml, new_topic, produce

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(900)]

PATIENCE_S = 240
# A task of the project waits where its gate is, and says which process it is.
DEFINITIONS = """
import json
import os
import time
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from tandem import Event, Source, View, count, maximum, total


class Sale(Event):
    at: datetime
    shop: str
    cents: int


def waits(name: str) -> None:
    gate = Path("GATES") / name
    if gate.exists():
        Path(f"{gate}.{os.getpid()}").touch()
        while gate.exists():
            time.sleep(0.05)


def read(value: bytes) -> Sale:
    waits("decode")
    told = json.loads(value)
    return Sale(datetime.fromisoformat(told["at"]), told["shop"], told["cents"])


def watched(rows: pa.Table) -> pa.Table:
    if rows.num_rows:
        waits("fold")
    return rows


sales = Source(topic="TOPIC", event=Sale, event_time="at", decoder=read, prepare=watched)
per_shop = View(source=sales, keys={"shop": "shop"}, measures={"n": count(), "cents": total("cents")})
SOURCES = (sales,)
VIEWS = (per_shop,)
"""


@dataclass(frozen=True)
class Shop:
    """A project whose tasks wait at gates, on a cluster whose workers see the folder of its tables."""

    folder: Path
    cluster: Cluster
    connection: kafka.BrokerConnection
    topic: kafka.Topic

    def sell(self, first: int, end: int) -> None:
        for number in range(first, end):
            sale = {"at": "2026-03-01T12:00:00+00:00", "shop": f"shop {number % 3}", "cents": number}
            produce(self.connection, self.topic, [json.dumps(sale).encode()], partition=number % 2)

    def start(self, *words: str, **more: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "tandem.cli", *words, "--project", str(self.folder), "--json"]
        return subprocess.Popen(
            command,
            env=child_environment(environ()) | self.cluster.settings | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self, child: "subprocess.Popen[str]") -> Any:
        out, said = child.communicate(timeout=PATIENCE_S)
        assert child.returncode == 0, said
        return json.loads(out)

    def define(self, measure: str, other: str) -> None:
        file = self.folder / "definitions.py"
        file.write_text(file.read_text().replace(f'"cents": {measure}(', f'"cents": {other}('))

    def rows(self) -> dict[str, tuple[int, int]]:
        document = self.ended(self.start("query", "per_shop"))
        return {row["shop"]: (row["n"], row["cents"]) for row in document["rows"]}

    def counted(self) -> dict[str, tuple[int, int]]:
        """The rows that the query returns; none before its first answer."""
        child = self.start("query", "per_shop")
        out, _ = child.communicate(timeout=PATIENCE_S)
        return {} if child.returncode else {row["shop"]: (row["n"], row["cents"]) for row in json.loads(out)["rows"]}

    @contextmanager
    def an_executor_dies_at(self, gate: str, child_of: "list[subprocess.Popen[str]]") -> Iterator[None]:
        """The block starts a command: an executor dies while one of its tasks waits at the gate, which then opens."""
        armed = self.folder / "gates" / gate
        armed.touch()
        yield
        deadline = time.monotonic() + PATIENCE_S
        while (executor := self.waiting(gate)) is None:
            assert child_of[-1].poll() is None, child_of[-1].communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        executor.kill()
        executor.wait(20)
        armed.unlink()

    def waiting(self, gate: str) -> psutil.Process | None:
        """The executor of a task that waits at the gate."""
        for file in (self.folder / "gates").glob(f"{gate}.*"):
            with suppress(psutil.Error):
                for process in psutil.Process(int(file.suffix[1:])).parents():
                    if spark_cluster.EXECUTOR in process.cmdline():
                        return process
        return None


def truth(end: int) -> dict[str, tuple[int, int]]:
    return {f"shop {shop}": (len(range(shop, end, 3)), sum(range(shop, end, 3))) for shop in range(3)}


@pytest.fixture
def shop(broker: kafka.BrokerConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    # The workers of this test see the files of this host: its gates and its tables are there.
    monkeypatch.setattr(other_host, "find", lambda *_: OtherHost("environment", ()))
    (tmp_path / "gates").mkdir()
    topic = new_topic(broker)
    (tmp_path / "tandem.toml").write_text(f'state = "state"\n[storage]\nfolder = "shared"\n{kafka_toml(broker)}')
    (tmp_path / "definitions.py").write_text(DEFINITIONS.replace("GATES", str(tmp_path / "gates")).replace("TOPIC", topic.name))
    with spark_cluster.own_cluster(os.environ, tmp_path / "cluster", tmp_path, {}) as cluster:
        yield Shop(tmp_path, cluster, broker, topic)


def test_no_answer_changes_when_an_executor_dies(shop: Shop) -> None:
    shop.sell(0, 60)
    children: list[subprocess.Popen[str]] = []

    def begin(*words: str) -> "subprocess.Popen[str]":
        children.append(shop.start(*words))
        return children[-1]

    with shop.an_executor_dies_at("decode", children):
        archive = begin("archive")
    assert shop.ended(archive)["sources"]["sales"]["events"] == 60
    with shop.an_executor_dies_at("fold", children):
        recompute = begin("recompute")
    shop.ended(recompute)
    assert shop.rows() == truth(60)

    shop.define("total", "maximum")
    with shop.an_executor_dies_at("fold", children):
        apply = begin("apply", "--max-lag", "60", "--auto-promote")
    shop.ended(apply)
    assert shop.rows() == {name: (n, 57 + int(name[-1])) for name, (n, _) in truth(60).items()}


def test_a_micro_batch_is_counted_once_when_its_executor_dies(shop: Shop) -> None:
    shop.sell(0, 30)
    with shop.an_executor_dies_at("fold", speed := []):
        speed.append(shop.start("speed"))
    try:
        deadline = time.monotonic() + PATIENCE_S
        while (found := shop.counted()) != truth(30):
            assert speed[0].poll() is None, speed[0].communicate()[1]
            assert time.monotonic() < deadline, found
    finally:
        speed[0].send_signal(signal.SIGINT)
        speed[0].communicate(timeout=60)


def test_a_run_without_any_executor_ends_with_a_sentence(shop: Shop) -> None:
    shop.sell(0, 10)
    (shop.folder / "gates" / "decode").touch()
    archive = shop.start("archive", TANDEM_SPARK_EXECUTOR_WAIT_S="30")
    deadline = time.monotonic() + PATIENCE_S
    while shop.waiting("decode") is None:
        assert archive.poll() is None, archive.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for worker in shop.cluster.workers:
        worker.kill()
    _, said = archive.communicate(timeout=PATIENCE_S)
    assert archive.returncode == 1
    assert "no executor has been there for 30 s" in said
