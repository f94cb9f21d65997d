"""Where contestants publish the view: a topic of last values, a Delta table of partial rows, or Tandem's tables."""

import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from tandem.bench.peers.contestant import MARKED, ContestantCommand, Setting
from tandem.bench.peers.events import Answers
from tandem.bench.peers.provided import script
from tandem.infra import kafka
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.views.errors import TandemError

VIEW: Final = "pages"
CLAIMED: Final = 2
"""Entries of a realtime table's log before the first micro-batch: its creation, and the writer's claim."""


@dataclass(frozen=True)
class LastValues:
    """A topic of which the last value of each page and minute counts."""

    setting: Setting

    def version(self) -> object:
        """The ends of the partitions."""
        topic = kafka.topic(self.setting.connection, self.setting.output)
        ends = kafka.ends(self.setting.connection, [topic])
        return tuple(sorted(ends.items())) if any(ends.values()) else None

    def read(self) -> tuple[Answers, float]:
        """All rows, and the broker's time of the last record."""
        done = subprocess.run(topic_reader(self.setting).words, capture_output=True, check=False, text=True)
        if done.returncode:
            raise TandemError(f"the topic {self.setting.output} could not be read: {done.stderr.strip()[-500:]}")
        found = json.loads(done.stdout)
        return answers(found["rows"]), found["last"]


def topic_reader(setting: Setting, *options: str) -> ContestantCommand:
    """The program that reads such a topic, in the peers' environment."""
    config = setting.config("reader.json", {"kafka": setting.librdkafka(), "topic": setting.output, "prefix": MARKED})
    return ContestantCommand((setting.provided.python, script("topic_reader"), str(config), *options))


def follow_topic(setting: Setting) -> ContestantCommand:
    """The same, which follows it."""
    return topic_reader(setting, "--follow")


@dataclass(frozen=True)
class PartialRows:
    """A Delta table of partial rows, which a reader adds up."""

    table: Path

    def version(self) -> object:
        """The newest commit."""
        return newest(self.table)

    def read(self) -> tuple[Answers, float]:
        """All rows, and the time of the last commit that appended some."""
        table = DeltaTable(str(self.table)).to_pyarrow_table()
        summed = pa.TableGroupBy(table, ["path", "w"]).aggregate([("n", "sum"), ("b", "sum"), ("m", "max")])
        rows = zip(*(summed.column(name).to_pylist() for name in ("path", "w", "n_sum", "b_sum", "m_max")), strict=True)
        appended = [path for path in commits(self.table) if '"dataChange":true' in path.read_text("utf-8")]
        return answers(rows), appended[-1].stat().st_mtime


@dataclass(frozen=True)
class ServedOutput:
    """Tandem's tables, read by the merged reader."""

    state: Path

    def version(self) -> object:
        """The newest commit of the realtime table; None while it has counted nothing."""
        found = realtime_commits(self.state)
        return found[-1].name if len(found) > CLAIMED else None

    def read(self) -> tuple[Answers, float]:
        """All rows, and the time of the last commit."""
        return self.rows(), realtime_commits(self.state)[-1].stat().st_mtime

    def rows(self) -> Answers:
        """All rows at the newest snapshot."""
        rows = given(Reader(Tables.of(Settings(state=str(self.state)))).answer(VIEW)).rows()
        return answers((row["path"], _milliseconds(row["window_start"]), row["n"], row["b"], row["m"]) for row in rows)


def realtime_commits(state: Path) -> list[Path]:
    """The log entries of the realtime table, in order."""
    return sorted(path for folder in state.glob("tables/realtime/*/*") for path in commits(folder))


def commits(table: Path) -> list[Path]:
    """The log entries of a Delta table in a folder, in order."""
    return sorted((table / "_delta_log").glob("*.json"))


def newest(table: Path) -> str | None:
    """The name of the newest log entry."""
    found = commits(table)
    return found[-1].name if found else None


def answers(rows: Iterable[Iterable[Any]]) -> Answers:
    """Answers from rows of page, minute, number, bytes and duration."""
    return {(str(path), int(w)): (int(n), int(b), float(m)) for path, w, n, b, m in rows}


def _milliseconds(at: datetime | str) -> int:
    moment = datetime.fromisoformat(at) if isinstance(at, str) else at
    return int(moment.timestamp() * 1000)
