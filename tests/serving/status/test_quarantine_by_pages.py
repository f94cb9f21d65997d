"""Pages of a quarantine are the whole of it in order, however its files are cut; what is asked for is all that is held."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tandem.ledger.delta.addresses import Tables
from tandem.serving.read.selection import BadSelection
from tandem.serving.status.quarantine import After, rejects
from tandem.views.source.source import REJECTS_SCHEMA

SOURCE, DECODER = "hits", "d"
START = datetime(2026, 11, 1, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CLOCKS = (START, START, EPOCH - timedelta(milliseconds=1), datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))
"""Of producers: a record without a timestamp is of a millisecond before 1970."""


def reject(random: Random, number: int) -> dict[str, Any]:
    """Times and topics repeat, places do not."""
    return {
        "topic_id": random.choice(("S", "T.v-2_x", "T")),
        "partition": random.randrange(2),
        "offset": number,
        "timestamp": random.choice(CLOCKS) + timedelta(microseconds=random.randrange(4)),
        "reason": random.choice(("malformed", "utf8")),
        "detail": "why",
        "first_bytes": b"x",
    }


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    random, made = Random(1), Tables(str(tmp_path_factory.mktemp("state")))
    for size in (1, 40, 9):
        rows = [reject(random, number) for number in random.sample(range(10_000), size)]
        write_deltalake(made.quarantine(SOURCE, DECODER), pa.Table.from_pylist(rows, REJECTS_SCHEMA), mode="append")
    return made


def pages(tables: Tables, size: int, reason: str | None = None) -> Iterator[pa.Table]:
    page = rejects(tables, SOURCE, DECODER, reason=reason, limit=size)
    while page.num_rows:
        yield page
        after = After.parse(str(After.of(page)))
        page = rejects(tables, SOURCE, DECODER, reason=reason, limit=size, after=after)


def test_all_pages_together_are_the_whole_list_in_order(tables: Tables) -> None:
    whole = rejects(tables, SOURCE, DECODER).to_pylist()
    order = [(EPOCH - one["timestamp"], one["topic_id"], one["partition"], -one["offset"]) for one in whole]
    assert (len(whole), order) == (50, sorted(order))
    for size in (1, 7, 49, 50, 51):
        found = [page.to_pylist() for page in pages(tables, size)]
        assert [one for page in found for one in page] == whole
        assert {len(page) for page in found[:-1]} <= {size}
    of_one = [one for page in pages(tables, 4, "utf8") for one in page.to_pylist()]
    assert of_one == [one for one in whole if one["reason"] == "utf8"]


def test_there_is_no_list_before_the_first_run(tables: Tables) -> None:
    assert rejects(tables, "another", DECODER, limit=3).num_rows == 0


@pytest.mark.parametrize("text", ["", "1", "1.2.3", "x.2.3.T", "1.-2.3.T", "1.2.²3.T", f"{'9' * 19}.1.1.T"])
def test_an_invalid_cursor_is_refused(text: str) -> None:
    with pytest.raises(BadSelection, match=r"invalid cursor .*; use `next` from the previous page"):
        After.parse(text)
