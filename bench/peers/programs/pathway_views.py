"""The view in Pathway: events of equal id counted once, by page and minute. Runs in the peers' environment: CONFIG.

The file CONFIG holds JSON: `kafka`, the options of librdkafka, `topic`, `output`, and `commit_ms`, Pathway's interval between two
updates of the output.
"""

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pathway as pw  # type: ignore[import-not-found,unused-ignore]


class PathwayRequest(pw.Schema):  # type: ignore[misc,unused-ignore]
    """The fields that the view needs. `id` is a name of Pathway's own."""

    event: str
    at: str
    path: str
    bytes: int
    ms: float


def minute(at: str) -> int:
    """The start of the minute, in milliseconds since the epoch."""
    return int(datetime.fromisoformat(at[:16]).replace(tzinfo=UTC).timestamp()) * 1000


def main() -> None:
    """Read the topic and write the output until the process is killed."""
    config = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    requests = pw.io.kafka.read(
        {**config["kafka"], "group.id": config["output"], "auto.offset.reset": "earliest"},
        topic=config["topic"],
        schema=PathwayRequest,
        format="json",
        json_field_paths={"event": "/id"},
        autocommit_duration_ms=config["commit_ms"],
    )
    # The minute is cut from the text and becomes a number only in the reduced rows, because a Python function is slow.
    requests = requests.with_columns(minute=pw.this.at.str.slice(0, 16))
    once = requests.groupby(requests.event).reduce(
        path=pw.reducers.any(requests.path),
        minute=pw.reducers.any(requests.minute),
        bytes=pw.reducers.any(requests.bytes),
        ms=pw.reducers.any(requests.ms),
    )
    pages = once.groupby(once.path, once.minute).reduce(
        once.path,
        w=once.minute,
        n=pw.reducers.count(),
        b=pw.reducers.sum(once.bytes),
        m=pw.reducers.max(once.ms),
    )
    pw.io.kafka.write(pages, config["kafka"], topic_name=config["output"], format="json")
    print("READY", int(time.time() * 1000), flush=True)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    main()
