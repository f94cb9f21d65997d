"""A view with a zone, over HTTP and in SQL: times without a zone are read on its clocks, and rows show both spellings."""

import csv
import io
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tandem.serving.http.protocol.media_types import ARROW, CSV, NDJSON
from tests.serving.http.served import Asker, Served
from tests.serving.page.site import ZONE, ZONED, hit
from tests.serving.world import NOON, World

MIDNIGHT, UTC_MIDNIGHT = "2026-11-01T00:00:00-04:00", "2026-11-01T04:00:00Z"
"""Clocks in New York were set back on this day, after the window began."""
BOTH = {
    "window_start": UTC_MIDNIGHT,
    "window_end": "2026-11-02T05:00:00Z",
    "_local": {"window_start": MIDNIGHT, "window_end": "2026-11-02T00:00:00-05:00"},
}


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Asker]:
    """A server over days of New York: one event on each of three days, the last of which is that of NOON."""
    assert NOON.date().isoformat() == "2026-11-01"
    world = World(tmp_path, definitions=ZONED)
    world.append(0, *(hit("/", -1440 * day, price="1.25") for day in range(3)))
    world.trigger()
    with Served(world).asker() as asked:
        yield asked


def bounds(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in BOTH}


def test_a_day_without_a_zone_is_midnight_there(asker: Asker) -> None:
    rows = asker.get("/views/daily/rows", params={"from": "2026-11-01"}).json()["rows"]
    assert [bounds(row) for row in rows] == [BOTH]
    assert asker.get("/views/daily/rows", params={"to": "2026-11-01"}).json()["total"] == 2
    # With an offset it is that instant, and midnight in UTC is before the window begins.
    assert asker.get("/views/daily/rows", params={"from": UTC_MIDNIGHT}).json()["total"] == 1
    assert asker.get("/views/daily/rows", params={"from": "2026-11-01T04:00:01Z"}).json()["total"] == 0
    looked = asker.post("/views/monthly/lookup", json={"keys": [{"page": "/"}], "from": "2026-11-01"}).json()
    assert [row["_local"]["window_start"] for row in looked["rows"]] == [MIDNIGHT]


@pytest.mark.parametrize("window", ["2026-11-01", MIDNIGHT, UTC_MIDNIGHT])
def test_one_row_by_any_spelling_of_its_window(asker: Asker, window: str) -> None:
    in_memory = asker.get("/views/daily/row", params={"window": window})
    assert bounds(in_memory.json()["row"]) == BOTH
    by_framework = asker.get("/views/daily/row", params={"window": window, "layer": "merged"})
    assert by_framework.json() == in_memory.json()


def test_each_format_shows_the_zone(asker: Asker) -> None:
    def content(media: str) -> bytes:
        return asker.get("/views/daily/rows", params={"from": "2026-11-01"}, headers={"Accept": media}).content

    (line,) = content(NDJSON).splitlines()
    assert b'"_local":{"window_start":"2026-11-01T00:00:00-04:00"' in line
    (row,) = csv.DictReader(io.StringIO(content(CSV).decode()))
    assert (row["window_start"], row["window_end"]) == (MIDNIGHT, "2026-11-02T00:00:00-05:00")
    table = pa.ipc.open_stream(content(ARROW)).read_all()
    assert table.schema.field("window_start").type == pa.timestamp("us", ZONE)
    assert table["window_start"][0].as_py() == NOON.replace(hour=4, minute=0)
    # A view without a zone has UTC alone.
    assert "_local" not in asker.get("/views/page_traffic/rows").json()["rows"][0]


def test_sql_reads_and_shows_a_zone_by_name(asker: Asker) -> None:
    statement = (
        f"SELECT window_start, window_start AT TIME ZONE '{ZONE}' AS local FROM daily "
        f"WHERE window_start >= TIMESTAMP '2026-10-31' AT TIME ZONE '{ZONE}' ORDER BY 1"
    )
    rows = asker.post("/sql", json={"statement": statement}).json()["rows"]
    days = [NOON.date() - timedelta(days=1), NOON.date()]
    assert [row["local"] for row in rows] == [f"{day}T00:00:00" for day in days]
    assert [row["window_start"] for row in rows] == [f"{day}T04:00:00Z" for day in days]
