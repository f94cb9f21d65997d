"""A real PostgreSQL, Debezium's embedded engine and a real broker: what the topic says is what the database has."""

import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import psycopg
import pytest

from tandem import Event, Name, Scale, Source, Table, View, count, debezium
from tandem.infra import kafka
from tandem.infra.kafka import broker as embedded
from tandem.infra.process import background
from tandem.infra.settings import KafkaSettings, Settings
from tandem.views.decode import DecodedRecords, decode
from tandem.views.kernel.kernel import deduplicate, merge, present
from tandem.views.kernel.rollup_states import partial_of
from tandem.views.measures.first_last import Order
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.prepare import prepare
from tandem.views.source.source import events_schema
from tests.debezium.engine import Engine, capturing, comes, logging_server, reach, streams, table_of
from tests.postgres_server import PostgresServer
from tests.stack import consumed, environ

STATEMENTS: Final = int(os.environ.get("TANDEM_STATEMENTS", "20000"))
PER_KILL: Final = 3_000
"""Statements between two kills, about."""
PATIENCE: Final = max(120, STATEMENTS // 100)
"""Seconds until the topic has all changes, at most."""
WRITERS: Final = 4
KEYS: Final = 300
KILLS: Final = ("engine", "database", "broker", "engine", "broker", "database", "engine")
END: Final = -1
"""The key of the row that is written last."""


class Stock(Event):
    id: int
    committed: Annotated[datetime, Name("__source_ts_us")]
    op: Annotated[str, Name("__op")]
    deleted: Annotated[bool, Name("__deleted")]
    lsn: Annotated[int, Name("__lsn")]
    name: str | None = None
    n: Annotated[Decimal, Scale(2)] | None = None


STOCK = Source(topic="stock", event=Stock, event_time="committed", identity=("lsn", "id", "op"), decoder=debezium(), name="stock")
ORDERS: Final[tuple[Order, ...]] = get_args(Order)
FIELDS: Final = {"name": "name", "n": "n"}
LATEST: Final[dict[Order, Table]] = {
    order: Table(STOCK, key={"id": "id"}, gone="deleted", fields=FIELDS, order=order, name=f"by_{order}") for order in ORDERS
}
CHANGES = View(STOCK, keys={"op": "op"}, measures={"n": count()})

# A second snapshot, of an engine that is killed before it has stored an offset, would leave out what changed before it.
OPTIONS: Final = {"table.include.list": "public.stock", "snapshot.mode": "no_data"}
TABLES: Final = """
CREATE TABLE stock (id integer PRIMARY KEY, name text, n numeric(10, 2) NOT NULL DEFAULT 7);
CREATE TABLE changes (op text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.id <> NEW.id THEN
        INSERT INTO changes VALUES ('d'), ('c');
    ELSE
        INSERT INTO changes VALUES (CASE TG_OP WHEN 'INSERT' THEN 'c' WHEN 'UPDATE' THEN 'u' ELSE 'd' END);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON stock FOR EACH ROW EXECUTE FUNCTION note();
"""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with logging_server() as running:
        yield running


@dataclass
class OwnBroker:
    """A broker of this test, which can be killed; it keeps its port."""

    settings: Settings
    process: background.Process | None = None

    def start(self) -> None:
        with background.starting(self.settings.folder):
            self.process = embedded.start(self.settings, environ=environ())

    def kill(self) -> None:
        assert self.process is not None
        background.kill(self.process)
        background.stop(self.settings.folder, self.process, seconds=0)  # which waits for its end


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[OwnBroker]:
    own = OwnBroker(Settings(state=str(tmp_path / "broker"), kafka=KafkaSettings(memory="320m", timeout_s=20, partitions=2)))
    own.start()
    try:
        yield own
    finally:
        assert own.process is not None
        background.stop(own.settings.folder, own.process, seconds=20)


@dataclass
class Writers:
    """Threads that change a table, as far as they are allowed; statements that a crash or a deadlock ends count, too."""

    dsn: str
    allowed: int = 0
    sent: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    change: threading.Condition = field(default_factory=threading.Condition)

    def allow(self, until: int) -> None:
        with self.change:
            self.allowed = until
            self.change.notify_all()

    def wait(self, until: int) -> None:
        with self.change:
            assert self.change.wait_for(lambda: self.sent >= until, timeout=300)

    def take(self) -> bool:
        """Whether another statement is to be sent; waits until it is allowed."""
        with self.change:
            self.change.wait_for(lambda: self.sent < self.allowed)
            self.sent += 1
            self.change.notify_all()
            return self.sent <= STATEMENTS

    def write(self, seed: int) -> None:
        chosen = random.Random(seed)
        while self.sent < STATEMENTS:
            with suppress(psycopg.OperationalError), psycopg.connect(self.dsn) as connection:  # until it is killed
                self._transactions(connection, chosen)

    def _transactions(self, connection: psycopg.Connection[Any], chosen: random.Random) -> None:
        while self.take():
            try:
                self._statement(connection, chosen)
                while chosen.random() < 0.6 and self.take():
                    self._statement(connection, chosen)
            except (psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation) as error:
                self.kinds[type(error).__name__] += 1
                connection.rollback()
                continue
            if chosen.random() < 0.05:
                self.kinds["rollback"] += 1
                connection.rollback()
            else:
                connection.commit()

    def _statement(self, connection: psycopg.Connection[Any], chosen: random.Random) -> None:
        key, other, n = chosen.randrange(KEYS), chosen.randrange(KEYS), Decimal(chosen.randrange(-(10**9), 10**9)).scaleb(-2)
        name = chosen.choice([None, "", "é\n\"'", f"name {chosen.random()}"])
        kind = chosen.choices(["insert", "update", "rename", "delete"], [4, 4, 1, 2])[0]
        self.kinds[kind] += 1
        if kind == "insert":
            connection.execute("INSERT INTO stock VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", (key, name, n))
        elif kind == "update":
            connection.execute("UPDATE stock SET name = %s, n = %s WHERE id = %s", (name, n, key))
        elif kind == "rename":
            connection.execute("UPDATE stock SET id = %s WHERE id = %s", (other, key))
        else:
            connection.execute("DELETE FROM stock WHERE id = %s", (key,))


def answer(view: View, result: DecodedRecords, topic: kafka.Topic) -> list[dict[str, Any]]:
    """A view's rows, of events without duplicates."""
    nothing = events_schema(view.source).empty_table()
    events = deduplicate(view.source, result.events, nothing, generations=(topic.id,)).events
    rows = prepare(view.source, events, (topic.id,)).events
    whole = Ranges.of({(topic.id, number): (0, 10**9) for number in range(topic.partitions)})
    return present(view, merge(view, [partial_of(view, rows, whole)])).to_pylist()


@pytest.mark.slow
@pytest.mark.broker
def test_rows_of_the_topic_are_the_rows_of_the_database(server: PostgresServer, own_broker: OwnBroker, tmp_path: Path) -> None:
    topic = kafka.create(kafka.connect(embedded.address(own_broker.settings)), ["stock"], own_broker.settings)["stock"]
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(TABLES)
    folder = tmp_path / "engine"
    folder.mkdir()
    with capturing(server, embedded.address(own_broker.settings), "stock", folder, OPTIONS) as engine:
        assert comes(lambda: streams(server), 60)
        writers = write_and_kill(server, own_broker, engine)
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("INSERT INTO stock VALUES (%s)", (END,))
            expected = {row[0]: row[1:] for row in connection.execute("SELECT * FROM stock").fetchall()}
            changes = dict(connection.execute("SELECT op, count(*) FROM changes GROUP BY op").fetchall())
        broker = kafka.connect(embedded.address(own_broker.settings))
        assert comes(
            lambda: any((record.key or b"").endswith((b":-1}", b":-1}}")) for record in consumed(broker, topic)), PATIENCE
        )
        taken = consumed(broker, topic)
    result = decode(STOCK, table_of(taken, topic))
    assert result.rejects.num_rows == 0, result.rejects.slice(0, 3).to_pylist()
    for order, table in LATEST.items():
        assert {row["id"]: (row["name"], row["n"]) for row in answer(table, result, topic)} == expected, order
    assert {row["op"]: row["n"] for row in answer(CHANGES, result, topic)} == changes
    times: dict[int, datetime] = {}
    backwards = 0
    for event in result.events.sort_by([("_partition", "ascending"), ("_offset", "ascending")]).to_pylist():
        backwards += event["committed"] < times.get(event["id"], event["committed"])
        times[event["id"]] = event["committed"]
    resent = result.events.num_rows - sum(changes.values())
    sys.stdout.write(
        f"\n{STATEMENTS} statements {dict(writers.kinds)}: {len(expected)} rows, changes {changes}; {len(taken)} records, "
        f"{result.skipped} of them tombstones, {resent} sent again; {backwards} times of a key went back; {engine.starts} "
        f"starts of the engine, {engine.hung} because it hung\n"
    )


def write_and_kill(server: PostgresServer, broker: OwnBroker, engine: Engine) -> Writers:
    """Send all statements from several connections; one part after the other is killed while they are sent."""
    writers = Writers(server.dsn)
    threads = [threading.Thread(target=writers.write, args=(seed,), daemon=True) for seed in range(WRITERS)]
    for thread in threads:
        thread.start()
    kills = list(islice(cycle(KILLS), max(len(KILLS), STATEMENTS // PER_KILL)))
    share = STATEMENTS // len(kills)
    for number, part in enumerate(kills):
        writers.allow((number + 1) * share)
        writers.wait(number * share + share // 2)
        if part == "engine":
            before = engine.starts
            engine.kill()
            assert comes(lambda before=before: engine.starts > before, 60)
        elif part == "database":
            server.kill()
            server.start()
        else:
            broker.kill()
            broker.start()
            reach(engine.log.parent, embedded.address(broker.settings))  # a program may have taken its port
        if not comes(lambda: streams(server), 25):  # an engine can stop without an end when its database is lost
            engine.hung += 1
            engine.kill()
            assert comes(lambda: streams(server), 60)
    writers.allow(2 * STATEMENTS)
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    return writers
