"""examples/web on a real broker and Spark: whatever the timestamps, each event counts once before any recompute."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.runtime.session import BatchRun
from tandem.cli.__main__ import main
from tandem.infra import kafka
from tandem.ledger.delta.addresses import Tables
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.views.project.project import Project, load_files
from tests.speed.sales import Running, settings_for, wait_for
from tests.stack import create_as, environ, kafka_toml, produce

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.timeout(1800)]

WEB = Path(__file__).parents[2] / "examples" / "web" / "definitions.py"
OWN = {"message.timestamp.after.max.ms": str(100 * 86_400_000)}
"""As brokers were before 4.0: they take any timestamp."""
WRONG = (timedelta(minutes=50), timedelta(hours=-1), timedelta(days=40), timedelta(days=-40))


def request(number: int) -> bytes:
    at = datetime(2026, 11, 1, 12, tzinfo=UTC) + timedelta(milliseconds=number)
    path, user = f"/shop/{number % 7}", f"user {number % 11}"
    return json.dumps(
        {"request_id": f"r{number}", "at": at.isoformat(), "user": user, "path": path, "status": 200, "bytes": number, "ms": 1.5}
    ).encode()


class Web:
    """The example with a topic of its own, a layer that starts and stops, and what was sent."""

    def __init__(self, broker: kafka.BrokerConnection, spark: SparkSession, folder: Path) -> None:
        self.broker, self.spark = broker, spark
        self.topic = create_as(broker, f"wrong-timestamps-{folder.name}", OWN)
        self.settings = settings_for(broker, folder / ".tandem", compact_every=4)
        definitions = WEB.read_bytes().replace(b'topic="requests"', f'topic="{self.topic.name}"'.encode())
        toml = f'{kafka_toml(broker)}[spark]\nmaster = "local[2]"\n'
        for name, content in (("definitions.py", definitions), ("tandem.toml", toml.encode())):
            (folder / name).write_bytes(content)
        self.project: Project = load_files({"definitions.py": definitions, "tandem.toml": b""})
        self.sent: set[int] = set()
        self.layer: Running | None = None

    def restart(self) -> None:
        self.stop()
        self.layer = Running(self.settings)
        self.layer.start(self.spark, self.project)
        assert self.layer.error is None

    def stop(self) -> None:
        if self.layer is not None:
            self.layer.stop.set()
            self.layer.join()
            assert self.layer.error is None
            self.layer = None

    def send(self, numbers: Sequence[int], stamped: timedelta = timedelta(0)) -> None:
        """Into both partitions, each event into another one than the last time."""
        self.sent |= set(numbers)
        turn = len(self.sent) + sum(kafka.ends(self.broker, [self.topic]).values())
        for partition in (0, 1):
            mine = [request(number) for number in numbers if (number + turn) % 2 == partition]
            produce(self.broker, self.topic, mine, partition=partition, at=datetime.now(UTC) + stamped)

    def check(self) -> None:
        """Every event that was sent counts once, as soon as the layer is at the log's end."""
        end = kafka.ends(self.broker, [self.topic])
        reader = Reader(Tables.of(self.settings))

        def reached() -> bool:
            reader.refresh()
            return dict(given(reader.answer("totals")).provenance.realtime.items()) == {p: o for p, o in end.items() if o}

        wait_for(reached)
        (row,) = given(reader.answer("totals")).rows()
        assert (row["requests"], row["bytes"]) == (len(self.sent), sum(self.sent))

    def run(self, command: str) -> BatchRun:
        return BatchRun(self.settings, command, lambda: datetime.now(UTC), lambda _: None, environ())


def test_each_event_counts_once_whatever_its_timestamp(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    web = Web(broker, spark, tmp_path)
    hundred = range(100)
    web.restart()
    web.send(hundred)
    web.check()
    web.send(hundred)
    web.check()
    for place, wrong in enumerate(WRONG):
        web.send([1000 + place], wrong)
        web.check()
        web.send(hundred)
        web.check()
    web.restart()
    web.send(hundred)
    web.check()
    # Producers that stamp with event time, or whose clock is ten minutes slow; a log of others; the layer stands still meanwhile.
    web.stop()
    web.send(range(200, 300), timedelta(days=-3))
    web.send(range(300, 400), timedelta(minutes=-10))
    web.send(range(10_000, 30_000))
    web.send([1010], WRONG[0])
    web.send(range(400))
    web.restart()
    web.check()
    web.send([*hundred, *range(200, 400)])
    web.check()

    write_archive.run(web.run("archive"), lambda: web.project)
    live = recompute.run(web.run("recompute"), lambda: web.project).publication
    assert live.repaired == {"requests": 0}
    web.send([*hundred, *range(200, 400)], WRONG[1])
    web.check()
    web.restart()
    web.send([*hundred, *range(200, 400)])
    web.check()
    web.stop()
    write_archive.run(web.run("archive"), lambda: web.project)
    live = recompute.run(web.run("recompute"), lambda: web.project).publication
    assert (live.repaired, live.counts["requests"].events) == ({"requests": 0}, len(web.sent))

    capsys.readouterr()
    assert main(["verify", "totals", "--json", "--keys", "0", "--project", str(tmp_path)]) == 0
    (counts,) = (one["counts"] for one in json.loads(capsys.readouterr().out)["sources"].values())
    assert {name: one["events"] for name, one in counts.items()} == dict.fromkeys(counts, len(web.sent))
