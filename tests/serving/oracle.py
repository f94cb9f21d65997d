"""The expected answers of each view of the test project, in plain Python that shares nothing with the kernel."""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

Row = dict[str, Any]

_ALL_TIME = {"window_start": None, "window_end": None, "window_state": "open"}


def _events(values: Iterable[bytes]) -> list[dict[str, Any]]:
    events = []
    for value in values:
        try:
            event = json.loads(value)
        except ValueError:
            continue  # the test project's only malformed records are no JSON
        events.append(event)
    return events


def _hour(event: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(event["moment"]).replace(minute=0, second=0, microsecond=0)


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def unlabelled(rows: Iterable[Row]) -> list[Row]:
    """Rows without the labels of their windows and of themselves, which depend on the micro-batches."""
    return [{name: value for name, value in row.items() if name not in ("window_state", "_exactness")} for row in rows]


def per_page(values: Iterable[bytes]) -> list[Row]:
    groups: dict[tuple[datetime, str | None], list[dict[str, Any]]] = {}
    for event in _events(values):
        groups.setdefault((_hour(event), event["page"]), []).append(event)
    ordered = sorted(groups, key=lambda group: (group[0], group[1] is None, group[1] or ""))
    rows = []
    for hour, page in ordered:
        sizes = [event["bytes"] for event in groups[hour, page]]
        rows.append(
            {
                "page": page,
                "window_start": _text(hour),
                "window_end": _text(hour + timedelta(hours=1)),
                "n": len(sizes),
                "bytes": sum(sizes),
                "largest": max(sizes),
                "price": str(sum(Decimal(event["price"]) for event in groups[hour, page])),
                "mean": sum(sizes) / len(sizes),
            }
        )
    return rows


def ever(values: Iterable[bytes]) -> list[Row]:
    events = [event for event in _events(values) if event["bytes"] > 0]
    if not events:
        return []
    pages = {event["page"] for event in events if event["page"] is not None}
    # Few distinct pages: the sketch is still exact.
    size = sum(event["bytes"] for event in events)
    return [{**_ALL_TIME, "n": len(events), "bytes": size, "pages": len(pages)}]


def inverse(values: Iterable[bytes]) -> list[Row]:
    sizes = [event["bytes"] for event in _events(values) if event["bytes"]]
    return [
        {
            "odd": odd,
            **_ALL_TIME,
            "n": len(some),
            "most": max(1000 // size for size in some),
        }
        for odd in (False, True)
        if (some := [size for size in sizes if (size % 2 == 1) is odd])
    ]


def rejected_by_inverse(values: Iterable[bytes]) -> dict[str, int]:
    zeros = sum(event["bytes"] == 0 for event in _events(values))
    return {"expression": zeros} if zeros else {}


ANSWERS = {"per_page": per_page, "ever": ever, "inverse": inverse}
