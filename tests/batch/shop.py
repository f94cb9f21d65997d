"""A small shop: its project, records with every kind of fault, and the expected answers of its views."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tandem.batch.erase import erase
from tandem.batch.erase.erase import ErasureResult, Select
from tandem.batch.release import apply
from tandem.batch.release.release_plan import Terms
from tandem.batch.runtime.session import BatchRun
from tandem.infra import kafka
from tandem.infra.settings import Settings
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.publish import promotion
from tandem.ledger.publish.batch_parts import files_of, still_live
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import StandingReleases
from tandem.ledger.stored_states import stored
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.serving.sinks.erasure import erase_stored_rows
from tandem.views.kernel import kernel
from tandem.views.kernel.rows import to_rows
from tandem.views.project import project
from tandem.views.project.project import Project
from tests import one_process
from tests.stack import delete_below, environ, kafka_toml, produce, stack_settings

DEFINITIONS = """
from datetime import datetime

from tandem import Event, Source, View, count, approx_count_distinct, maximum, mean, total, tumbling


class Sale(Event):
    id: str
    at: datetime
    shop: str
    cents: int


sales = Source(topic="TOPIC", event=Sale, event_time="at", identity=("id",))
per_hour = View(
    source=sales,
    keys={"shop": "shop"},
    window=tumbling(hours=1),
    measures={"n": count(), "cents": total("cents"), "biggest": maximum("cents"), "usual": mean("cents")},
)
refunds = View(source=sales, where="cents < 0", measures={"n": count(), "sales": approx_count_distinct("id")})
SOURCES = (sales,)
VIEWS = (per_hour, refunds)
"""
MALFORMED: Sequence[bytes | None] = (
    b"",
    None,
    b"{",
    b'{"id": "x"}',
    b"\xff\xfe",
    b'{"id":"a","at":"2026-01-01","shop":"b","cents":1}',
)
_START = datetime(2026, 3, 1, tzinfo=UTC)

Log = Mapping[int, Sequence[bytes | None]]
"""Values by partition, in order."""


@dataclass(frozen=True)
class Shop:
    """A project of its own at the shared broker."""

    settings: Settings
    connection: kafka.BrokerConnection
    topic: kafka.Topic
    folder: Path

    @classmethod
    def open(cls, connection: kafka.BrokerConnection, topic: kafka.Topic, folder: Path) -> "Shop":
        shop = cls(stack_settings(connection, folder / "state"), connection, topic, folder)
        (folder / "tandem.toml").write_text(
            f'state = "state"\n{kafka_toml(connection)}[spark]\nmaster = "local[2]"\n[batch]\nlock_wait_s = 120\n'
        )
        shop.define(DEFINITIONS)
        return shop

    def define(self, definitions: str) -> None:
        (self.folder / "definitions.py").write_text(definitions.replace("TOPIC", self.topic.name))

    def project(self) -> Project:
        return project.load(self.folder)

    def run(self, command: str) -> BatchRun:
        return BatchRun(self.settings, command, now=lambda: datetime.now(UTC), say=lambda _: None, environ=environ())

    def promote(self) -> Publication:
        """The project's definitions as the next release, live."""
        apply.run(self.run("apply"), self.project, Terms())
        return promotion.promote(StandingReleases(self.tables), None, days=7, max_lag=0, by="promote", at=datetime.now(UTC))

    def roll_back(self, number: int) -> Publication:
        """An earlier publication, live again."""
        at = datetime.now(UTC)
        return promotion.rollback(StandingReleases(self.tables), number, days=7, keep=2, since=at, by="test", at=at)

    def forget(self, select: Select | None, batch: BatchRun | None = None) -> list[ErasureResult]:
        """Erase the selected sales, and what alerts and sinks have stored of them."""
        stored = partial(erase_stored_rows, self.tables, alerts=self.project().alerts)
        return erase.run(batch or self.run("forget"), "sales", select, stored=stored)

    @property
    def tables(self) -> Tables:
        return Tables.of(self.settings)

    def sell(self, log: Log) -> None:
        for partition, values in log.items():
            produce(self.connection, self.topic, values, partition=partition)

    def delete_below(self, offsets: Mapping[int, int]) -> None:
        """Have the log delete its first records, by partition."""
        delete_below(self.connection, self.topic, offsets)


@dataclass(frozen=True)
class MemoryShop(Shop):
    """A shop whose topic is in memory, and whose tasks run in this process."""

    log: one_process.MemoryTopic

    @classmethod
    def of(cls, folder: Path, patch: pytest.MonkeyPatch) -> "MemoryShop":
        """A new shop with a topic of its own."""
        broker = one_process.MemoryBroker()
        broker.stand_in(patch)
        log = broker.new_topic()
        (folder / "tandem.toml").write_text('state = "state"\n')
        settings = Settings(state=str(folder / "state"))
        shop = cls(settings, kafka.connect(one_process.ADDRESS), log.topic, folder, log)
        shop.define(DEFINITIONS)
        return shop

    def run(self, command: str) -> BatchRun:
        return one_process.run(self.settings, command)

    def sell(self, log: Log) -> None:
        for partition, values in log.items():
            self.log.append(values, partition=partition)

    def delete_below(self, offsets: Mapping[int, int]) -> None:
        self.log.delete_below(offsets)


def records(seed: int, n: int, *, known: Sequence[bytes | None] = ()) -> Log:
    """Sales of two partitions: late ones, copies, copies that differ, and malformed records."""
    dice = random.Random(seed)
    log: dict[int, list[bytes | None]] = {0: [], 1: []}
    made = [value for value in known if value and value not in MALFORMED]
    for number in range(n):
        late = timedelta(hours=dice.randrange(30)) if dice.random() < 0.1 else timedelta()
        at = _START + timedelta(seconds=20 * number) - late
        sale = {
            "id": f"{seed}-{number}",
            "at": at.isoformat(),
            "shop": f"shop {dice.randrange(4)}",
            "cents": dice.randrange(-50, 500),
        }
        value = json.dumps(sale).encode()
        log[dice.randrange(2)].append(value)
        if dice.random() < 0.05 and made:
            copy = json.loads(dice.choice(made))
            log[dice.randrange(2)].append(json.dumps(copy | ({"cents": 7} if dice.random() < 0.3 else {})).encode())
        if dice.random() < 0.02:
            log[dice.randrange(2)].append(dice.choice(MALFORMED))
        made.append(value)
    return log


@dataclass(frozen=True)
class Truth:
    """What plain Python makes of the log: rows of `per_hour` by shop and hour, refunds, and what became of the records."""

    per_hour: dict[tuple[str, str], tuple[int, int, int, float]]
    refunds: int
    events: int
    duplicates: int
    quarantined: int


def truth(log: Log, *, below: int = 0) -> Truth:
    """Count by hand, in order of partition and offset; what costs less than `below` is a refund."""
    seen: set[tuple[str, str]] = set()
    groups: dict[tuple[str, str], list[int]] = {}
    refunds = duplicates = quarantined = 0
    for partition in sorted(log):
        for value in log[partition]:
            if value in MALFORMED:
                quarantined += 1
                continue
            sale = json.loads(value or b"")
            if (sale["id"], sale["at"]) in seen:
                duplicates += 1
                continue
            seen.add((sale["id"], sale["at"]))
            hour = datetime.fromisoformat(sale["at"]).strftime("%Y-%m-%dT%H:00:00Z")
            groups.setdefault((sale["shop"], hour), []).append(sale["cents"])
            refunds += sale["cents"] < below
    rows = {key: (len(cents), sum(cents), max(cents), sum(cents) / len(cents)) for key, cents in groups.items()}
    return Truth(rows, refunds, len(seen), duplicates, quarantined)


def together(*logs: Log) -> dict[int, list[bytes | None]]:
    """Logs one after the other."""
    return {partition: [value for log in logs for value in log[partition]] for partition in (0, 1)}


def answers(shop: Shop, live: Publication, view: str) -> list[dict[str, Any]]:
    """A view's published batch rows, as `query` prints them."""
    definition = project.load_files(Releases(shop.tables).load(live.release).files).views[view]
    parts, states = live.views[view].parts, []
    for number, part in enumerate(parts):
        address = live.views[view].address(shop.tables, view)
        _, files = files_of(shop.tables, address, part)
        place = Location.of(shop.tables, address)
        read = [some for file in files for some in stored(definition, place, file.path, ())]
        one = kernel.merge(definition, [kernel.Partial(states) for states in read])
        assert part.rows == one.states.num_rows  # one row per key and window
        states.append(still_live(one.states, parts[number + 1 :]))
    merged = kernel.merge(definition, [kernel.Partial(one) for one in states])
    return list(to_rows(definition, kernel.present(definition, merged)))


def assert_true(shop: Shop, live: Publication, log: Log) -> None:
    """Every exact answer of the publication is the truth about the log, and every record is accounted for."""
    expected = truth(log)
    found = {
        (row["shop"], row["window_start"]): (row["n"], row["cents"], row["biggest"], row["usual"])
        for row in answers(shop, live, "per_hour")
    }
    assert found == expected.per_hour
    assert sum(row["n"] for row in answers(shop, live, "refunds")) == expected.refunds
    counts = live.counts["sales"]
    assert (counts.events, counts.duplicates, sum(counts.quarantined.values())) == (
        expected.events,
        expected.duplicates,
        expected.quarantined,
    )


def watermark(log: Log) -> int:
    """The least of the partitions' newest event times, in microseconds since 1970, of events that are no copies."""
    seen: set[tuple[str, str]] = set()
    newest: dict[int, datetime] = {}
    for partition in sorted(log):
        for value in log[partition]:
            sale = {} if value in MALFORMED else json.loads(value or b"")
            if sale and (sale["id"], sale["at"]) not in seen:
                seen.add((sale["id"], sale["at"]))
                at = datetime.fromisoformat(sale["at"])
                newest[partition] = max(at, newest.get(partition, at))
    return int(min(newest.values()).timestamp() * 1_000_000)


def assert_labelled(shop: Shop, watermark: int) -> None:
    """The batch layer labels the hours by this watermark, ten seconds of lateness after their end."""
    answer = given(Reader(shop.tables).answer("per_hour", layer="batch"))
    ends = [(datetime.fromisoformat(row["window_end"]), row["window_state"]) for row in answer.rows()]
    behind = [(watermark - int(end.timestamp() * 1_000_000), state) for end, state in ends]
    assert [state for _, state in behind] == [
        "open" if ahead < 0 else "on_time" if ahead < 10_000_000 else "final" for ahead, _ in behind
    ]
    assert {"open", "final"} <= {state for _, state in behind}


def rows_of(shop: Shop, address: str) -> pa.Table:
    """All rows of a table, in the order of the log."""
    handle = delta_tables.open_table(shop.tables, address)
    assert handle is not None
    files = delta_tables.storage(handle)
    empty = pa.schema(handle.schema()).empty_table()
    rows = pa.concat_tables(
        [
            empty,
            *(
                pq.ParquetFile(files.open(path)).read(empty.column_names).cast(empty.schema)
                for path in delta_tables.files(handle)
            ),
        ]
    )
    topic = next(name for name in rows.column_names if name.endswith("topic_id"))
    offset = next(name for name in rows.column_names if name.endswith("offset"))
    partition = next(name for name in rows.column_names if name.endswith("partition"))
    return rows.sort_by([(topic, "ascending"), (partition, "ascending"), (offset, "ascending")])
