"""The cost of sending a record by each client behind the port: `python -m tandem.bench.senders`, with an embedded broker."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tandem.infra import kafka
from tandem.infra.kafka import broker
from tandem.infra.kafka.bulk import BulkSender
from tandem.infra.kafka.kafka_python.sender import PythonSender
from tandem.infra.process import background
from tandem.infra.settings import Kafka, Settings

RECORDS = 200_000
ROUNDS = 3
BYTES = 200


def measured(address: kafka.Address, make: Callable[..., kafka.Sender], records: int) -> tuple[float, float]:
    """Records a second, and microseconds of this process's CPU for each."""
    value, began, used = os.urandom(BYTES // 2).hex().encode(), time.monotonic(), time.process_time()
    with make(address, most_bytes=kafka.MOST_BYTES) as sender:
        for number in range(records):
            sender.send("bench", value, b"user-%d" % (number % 1000))
    seconds, cpu = time.monotonic() - began, time.process_time() - used
    assert sender.acknowledged == records
    return records / seconds, cpu / records * 1e6


def main() -> None:
    """Print a line for each client and round, by turns."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(state=folder, kafka=Kafka(memory="512m", timeout_s=20))
        with background.starting(Path(folder)):
            process = broker.start(settings, environ=dict(os.environ))
        try:
            address = broker.address(settings)
            kafka.create(kafka.connect(address), ["bench"], settings)
            for _ in range(ROUNDS):
                for name, make in (("librdkafka", BulkSender), ("kafka-python", PythonSender)):
                    rate, cpu = measured(address, make, RECORDS)
                    print(f"{name:<14}{rate:>10,.0f} records/s {cpu:>8.1f} µs of CPU a record")
        finally:
            background.stop(Path(folder), process, seconds=20)


if __name__ == "__main__":
    main()
