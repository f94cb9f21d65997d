"""The campaign's project: its definitions, its settings and its events."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from tests.campaign.answers.oracle import SESSION_S, VISIT

_DEFINITIONS: Final = """
from datetime import datetime, timedelta

from tandem import Event, Source, View, count, maximum, minimum, session, total, tumbling


class Sale(Event):
    id: int
    at: datetime
    shop: str
    amount: int


# Steps of the clock stay far below the dedup window: a step beyond it may let a duplicate count until the next recompute.
sales = Source(topic="sales", event=Sale, event_time="at", identity=("id",), dedup_window=timedelta(days=3))
per_minute = View(
    source=sales,
    where="amount >= {least}",
    keys={{"shop": "shop"}},
    window=tumbling(minutes=1),
    measures={{"n": count(), "sum": total("amount")}},
)
per_shop = View(
    source=sales,
    keys={{"shop": "shop"}},
    measures={{"n": count(), "sum": total("amount"), "least": minimum("amount"), "most": maximum("amount")}},
)
per_visit = View(
    source=sales,
    where="amount >= {visit}",
    keys={{"shop": "shop"}},
    window=session(seconds={session}),
    measures={{"n": count(), "sum": total("amount")}},
)
SOURCES = (sales,)
VIEWS = (per_minute, per_shop, per_visit)
"""
# `failures`: a full disk may last longer than the five restarts in a row after which a part is given up.
_SETTINGS: Final = """
state = "{state}"
[kafka]
{kafka}
[spark]
master = "local[2]"
driver_memory = "512m"
[serving]
port = {port}
hot = "on"
[supervisor]
failures = 20
longest_restart_s = 5
[batch]
lock_wait_s = 240
"""
_EMBEDDED: Final = 'memory = "320m"'
_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
SOURCE: Final = "sales"


def write(folder: Path, *, state: Path, port: int, kafka: str = _EMBEDDED) -> None:
    """Make the project's folder, with the first edition of its definitions; `kafka` are the lines of that table."""
    folder.mkdir()
    (folder / "tandem.toml").write_text(_SETTINGS.format(state=state, port=port, kafka=kafka))
    edit(folder, 0)


def edit(folder: Path, least: int) -> None:
    """Give the definitions another meaning: `per_minute` counts sales of at least that amount."""
    text = _DEFINITIONS.format(least=least, visit=VISIT, session=SESSION_S)
    (folder / "definitions.py").write_text(text)


def events(random_: random.Random) -> Iterator[dict[str, Any]]:
    """Sales without end, numbered from 0: fifty a second of event time, out of order by seconds and some by half an hour."""
    number = 0
    while True:
        late = random_.randrange(1800) if random_.random() < 0.01 else random_.randrange(10)
        at = _START + timedelta(seconds=number // 50 - late)
        yield {"id": number, "at": at.isoformat(), "shop": f"shop {random_.randrange(10)}", "amount": random_.randrange(100)}
        number += 1


def line(event: dict[str, Any]) -> bytes:
    """An event as a record's value."""
    return json.dumps(event).encode()
