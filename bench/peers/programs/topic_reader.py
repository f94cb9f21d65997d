"""Reads the topic to which a contestant writes its view. Runs in the peers' environment: CONFIG [--follow].

The file CONFIG holds JSON: `kafka`, the options of librdkafka, `topic`, and `prefix`.

* Without `--follow` it reads what is committed and prints, as JSON, `rows`, the last value of each page and minute, and `last`,
  the broker's time of the last record in seconds.
* With `--follow` it prints each new page that begins with the prefix, and the time at which it was read, until its input ends.

A value is JSON with path, w or window_start (milliseconds, or a minute as text), n, b and m. A record without a value deletes
nothing here, because rows of this view only grow. Pathway's values also have `diff` and `time`: those with a negative diff are
replaced by later ones.
"""

import json
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

BATCH = 20_000


def consumer(config: dict[str, Any], **options: object) -> Consumer:
    """A consumer of all partitions of the topic from their starts, which reads committed records only."""
    made = Consumer(
        {
            **config["kafka"],
            "group.id": f"reader-of-{config['topic']}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
            **options,
        }
    )
    partitions = made.list_topics(config["topic"], timeout=30).topics[config["topic"]].partitions
    made.assign([TopicPartition(config["topic"], number, 0) for number in partitions])
    return made


def committed(config: dict[str, Any]) -> Iterator[Any]:
    """Every record up to the ends of the partitions."""
    reading = consumer(config, **{"enable.partition.eof": True})
    left = len(reading.assignment())
    while left:
        for message in reading.consume(BATCH, 0.2):
            if message.error():
                left -= 1
            else:
                yield message
    reading.close()


def minute(value: int | str) -> int:
    """Milliseconds since the epoch."""
    return value if isinstance(value, int) else int(datetime.fromisoformat(value).replace(tzinfo=UTC).timestamp()) * 1000


def last_values(config: dict[str, Any]) -> dict[str, Any]:
    """The document that is printed without `--follow`."""
    rows: dict[tuple[str, int], tuple[int, list[Any]]] = {}
    last = 0
    for message in committed(config):
        last = max(last, message.timestamp()[1])
        if message.value() is None:
            continue
        value = json.loads(message.value())
        if value.get("diff", 1) < 0:
            continue
        row, at = (value["path"], minute(value["w"] if "w" in value else value["window_start"])), value.get("time", 0)
        if row not in rows or rows[row][0] <= at:
            rows[row] = (at, [value["n"], value["b"], value["m"]])
    return {"rows": [[*row, *measures] for row, (_, measures) in rows.items()], "last": last / 1000}


def follow(config: dict[str, Any]) -> None:
    """Print each new page of the prefix."""
    ended = threading.Event()  # as bench/input_end.py, which the peers' environment may lack

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    reading, seen, prefix = consumer(config), set[str](), config["prefix"].encode()
    while not ended.is_set():
        for message in reading.consume(1_000, 0.01):
            value = None if message.error() else message.value()
            if value is None or prefix not in value:
                continue
            path = json.loads(value)["path"]
            if path not in seen:
                seen.add(path)
                print(path, time.time(), flush=True)


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    if sys.argv[2:] == ["--follow"]:
        follow(given)
    else:
        json.dump(last_values(given), sys.stdout)
