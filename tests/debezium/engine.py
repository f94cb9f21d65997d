"""Debezium's embedded engine, which captures tables of a real PostgreSQL into a topic."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psycopg
import pyarrow as pa

from tandem.infra import folders, kafka
from tandem.infra.files.property_text import escape
from tandem.infra.java import jar_fetch, jars, java_home
from tandem.views.source.source import RECORDS_SCHEMA
from tests.postgres_server import PostgresServer, postgres_server, reachable_folder
from tests.stack import environ

HERE: Final = Path(__file__).parent
OPTIONS: Final = {
    "name": "capture",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
    "offset.flush.interval.ms": "200",
    "database.hostname": "127.0.0.1",
    "database.user": "tandem",
    "database.password": "none",
    "database.dbname": "postgres",
    "topic.prefix": "shop",
    "plugin.name": "pgoutput",
    "publication.autocreate.mode": "filtered",
    "poll.interval.ms": "20",
}


def class_path() -> str:
    """The engine's jars, fetched at first use as the platform's are, and those of the broker and of JDBC."""
    environment = environ()
    here = folders.cache(environment) / "debezium"
    java = java_home.find(environment).command
    jar_fetch.fetch(here, here.parent, java=java, trust_store=None, environ=environment, lists=HERE)
    others = (path for group in ("broker", "jdbc") for path in jars.paths(group, environ=environment))
    return os.pathsep.join(map(str, [*(here / path for path in jar_fetch.pinned(HERE)), *others]))


@dataclass
class Engine:
    """An engine that is started again whenever it ends; `starts` counts how often, `hung` how often a test ended it."""

    command: list[str]
    log: Path
    starts: int = 0
    hung: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    process: subprocess.Popen[bytes] | None = None

    def keep(self) -> None:
        """Run until `ended`."""
        with self.log.open("ab") as log:
            while not self.ended.is_set():
                self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
                self.starts += 1
                self.process.wait()

    def kill(self) -> None:
        """End the process as a crash does."""
        if self.process is not None:
            self.process.kill()


@contextmanager
def logging_server() -> Iterator[PostgresServer]:
    """A server whose log Debezium captures."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with reachable_folder() as folder, postgres_server(folder / "server", port=port) as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET wal_level = logical")
        server.stop()
        server.start()
        yield server


def comes(condition: Callable[[], Any], seconds: float) -> bool:
    """Whether it becomes true within this time."""
    pause, deadline = threading.Event(), time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause.wait(0.1)
    return True


def streams(server: PostgresServer) -> bool:
    with psycopg.connect(server.dsn) as connection:
        return connection.execute("SELECT active FROM pg_replication_slots").fetchall() == [(True,)]


def table_of(taken: Sequence[Any], topic: kafka.Topic) -> pa.Table:
    """Records as the archive has them."""
    rows = [
        {
            "topic_id": topic.id,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": datetime.fromtimestamp(record.timestamp / 1000, UTC),
            "timestamp_type": record.timestamp_type,
            "key": record.key,
            "value": record.value,
            "headers": [],
        }
        for record in taken
    ]
    return pa.Table.from_pylist(rows, schema=RECORDS_SCHEMA)


def reach(folder: Path, address: kafka.Address) -> None:
    """Have the next start of the engine in this folder send to this broker; an engine that waits for another broker ends soon."""
    limits = {"acks": "all", "delivery.timeout.ms": "6000", "request.timeout.ms": "3000", "max.block.ms": "6000"}
    (folder / "kafka.properties").write_text(_properties({**kafka.java_options(address), **limits}))


def _properties(options: Mapping[str, str]) -> str:
    return "".join(f"{key}={escape(value)}\n" for key, value in options.items())


@contextmanager
def capturing(
    server: PostgresServer, address: kafka.Address, topic: str, folder: Path, options: Mapping[str, str], *, schemas: str = ""
) -> Iterator[Engine]:
    """Capture tables of a server, with options of Debezium, until the end of the block.

    Changes are in JSON; in Avro with a file's name for `schemas`: each line is one, its number the id.
    """
    names = {"offset.storage.file.filename": str(folder / "offsets"), "database.port": str(server.port)}
    engine_properties = {**OPTIONS, **names, **options}
    (folder / "engine.properties").write_text(_properties(engine_properties))
    reach(folder, address)
    java = java_home.find(environ()).command
    files = [str(HERE / "Capture.java"), str(folder / "engine.properties"), str(folder / "kafka.properties"), topic]
    files += [str(folder / schemas)] if schemas else []
    engine = Engine([java, "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", class_path(), *files], folder / "engine.log")
    keeper = threading.Thread(target=engine.keep)
    keeper.start()
    try:
        yield engine
    finally:
        engine.ended.set()
        while keeper.is_alive():  # it may be about to start another process
            engine.kill()
            keeper.join(0.2)
