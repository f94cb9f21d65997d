"""The view in plain Python, from the JSON of the topic: an oracle that shares nothing with the benchmark."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime


def view(values: Iterable[bytes]) -> dict[tuple[str, int], tuple[int, int, float]]:
    """Path and start of the minute in milliseconds, to number, bytes and longest duration of the different events."""
    seen: set[str] = set()
    found: dict[tuple[str, int], tuple[int, int, float]] = {}
    for value in values:
        event = json.loads(value)
        if event["id"] in seen:
            continue
        seen.add(event["id"])
        at = datetime.fromisoformat(event["at"]).astimezone(UTC)
        row = (event["path"], int(at.replace(second=0, microsecond=0).timestamp()) * 1000)
        number, size, longest = found.get(row, (0, 0, 0.0))
        found[row] = (number + 1, size + event["bytes"], max(longest, event["ms"]))
    return found
