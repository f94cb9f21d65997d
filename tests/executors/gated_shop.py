"""A project of a cluster: its tasks wait at gates, so that a test knows which executor works, and can kill it meanwhile."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tandem.infra import kafka
from tandem.infra.folders import child_environment
from tests.stack import environ, kafka_toml, new_topic, produce

PATIENCE_S = 600
FIRST_EXECUTOR_S = 480
"""How long a busy machine may take to start YARN's containers: no test here is about this bound. Less than the patience, so that
a command that waits in vain says why."""
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
class GatedShop:
    """A project whose tasks wait at gates, on a cluster whose executors see its folder."""

    folder: Path
    settings: Mapping[str, str]
    connection: kafka.BrokerConnection
    topic: kafka.Topic

    def sell(self, first: int, end: int) -> None:
        for partition in range(2):
            numbers = (number for number in range(first, end) if number % 2 == partition)
            sales = [{"at": "2026-03-01T12:00:00+00:00", "shop": f"shop {number % 3}", "cents": number} for number in numbers]
            produce(self.connection, self.topic, [json.dumps(sale).encode() for sale in sales], partition=partition)

    def start(self, *words: str, **more: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "tandem.cli", *words, "--project", str(self.folder), "--json"]
        return subprocess.Popen(
            command,
            env=child_environment(environ())
            | {"TANDEM_SPARK_EXECUTOR_WAIT_S": str(FIRST_EXECUTOR_S)}
            | dict(self.settings)
            | more,
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

    def wait_for_rows(self, rows: dict[str, tuple[int, int]], child: "subprocess.Popen[str]") -> None:
        """Wait until the query returns exactly these rows, while the child runs."""
        deadline = time.monotonic() + PATIENCE_S
        while (counted := self.counted()) != rows:
            assert child.poll() is None, child.communicate()[1]
            assert time.monotonic() < deadline, counted

    @contextmanager
    def an_executor_dies_at(self, gate: str, child_of: "list[subprocess.Popen[str]]") -> Iterator[None]:
        """The block starts a command: an executor dies while one of its tasks waits at the gate, which then opens."""
        self.close(gate)
        yield
        executor, *_ = self.until_wait(gate, child_of[-1])
        executor.kill()
        executor.wait(20)
        self.open(gate)

    def close(self, gate: str) -> None:
        """From now on, tasks wait there."""
        for old in (self.folder / "gates").glob(f"{gate}*"):
            old.unlink()
        (self.folder / "gates" / gate).touch()

    def open(self, gate: str) -> None:
        """Let the tasks go on."""
        (self.folder / "gates" / gate).unlink()

    def until_wait(self, gate: str, child: "subprocess.Popen[str]", *, executors: int = 1) -> list[psutil.Process]:
        """The executors of the tasks that wait at the gate, once there are this many."""
        deadline = time.monotonic() + PATIENCE_S
        while len(there := self.waiting(gate)) < executors:
            assert child.poll() is None, child.communicate()[1]
            assert time.monotonic() < deadline, there
            time.sleep(0.1)
        return there

    def waiting(self, gate: str) -> list[psutil.Process]:
        """The executors of the tasks that wait at the gate."""
        there = set()
        for file in (self.folder / "gates").glob(f"{gate}.*"):
            with suppress(psutil.Error):
                there.update(process for process in psutil.Process(int(file.suffix[1:])).parents() if is_executor(process))
        return sorted(there, key=lambda process: process.pid)

    def executors(self) -> int:
        """How many executors run below the processes of this test's cluster."""
        return sum(map(is_executor, psutil.Process().children(recursive=True)))


def is_executor(process: psutil.Process) -> bool:
    """Whether it is the JVM of an executor, of a standalone worker or of YARN."""
    try:
        return process.name() == "java" and any(word.endswith("CoarseGrainedExecutorBackend") for word in process.cmdline())
    except psutil.Error:  # it has ended
        return False


def shop_with_gates(folder: Path, settings: Mapping[str, str], connection: kafka.BrokerConnection) -> GatedShop:
    """A new project there, with a topic of its own."""
    (folder / "gates").mkdir()
    topic = new_topic(connection)
    (folder / "tandem.toml").write_text(f'state = "state"\n[storage]\nfolder = "shared"\n{kafka_toml(connection)}')
    (folder / "definitions.py").write_text(DEFINITIONS.replace("GATES", str(folder / "gates")).replace("TOPIC", topic.name))
    return GatedShop(folder, settings, connection, topic)


def truth(end: int) -> dict[str, tuple[int, int]]:
    return {f"shop {shop}": (len(range(shop, end, 3)), sum(range(shop, end, 3))) for shop in range(3)}
