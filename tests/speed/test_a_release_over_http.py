"""On real Spark and a real broker: what `?release=N` answers before its promotion is what the server answers after it."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.release import apply
from tandem.batch.release.release_plan import Terms
from tandem.batch.runtime.session import BatchRun
from tandem.infra import kafka
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import promotion
from tandem.ledger.publish.standing import StandingReleases
from tandem.views.project import project
from tandem.views.project.project import Project
from tests.samples import LONGER
from tests.serving.http.routes.test_a_release_over_http import RELEASE, everything
from tests.serving.http.served import Served
from tests.speed.sales import DEFINITIONS, running, settings_for, some, wait_until_folded
from tests.stack import environ, new_topic, produce

CASES = 12 if LONGER else 2
CHANGES = (
    ("tumbling(minutes=1)", "tumbling(minutes=2)"),
    ('"most": maximum("amount")', '"most": maximum("amount % 7")'),
    ('per_shop = View(source=sales, keys={{"shop": "shop"}}', 'per_shop = View(source=sales, keys={{"big": "amount > 40"}}'),
    ('measures={{"n": count(), "sum"', 'where="amount % 3 > 0", measures={{"n": count(), "sum"'),
    ("    amount: int\n", "    amount: int\n    note: str | None = None\n"),
    ('identity=("id",)', 'identity=("id", "shop")'),
)
"""What may be edited in the definitions: windows, measures, keys, filters, and two decoders."""


@dataclass
class Selling:
    """A project in a folder, its topic and its log: sales by number, some of them twice."""

    folder: Path
    broker: kafka.BrokerConnection
    topic: kafka.Topic
    dice: random.Random
    settings: Settings
    sales: list[int]

    @property
    def tables(self) -> Tables:
        return Tables.of(self.settings)

    def define(self, text: str) -> None:
        (self.folder / "definitions.py").write_text(text.format(topic=self.topic.name))

    def project(self) -> Project:
        return project.load(self.folder)

    def run(self, command: str) -> BatchRun:
        return BatchRun(self.settings, command, now=lambda: datetime.now(UTC), say=lambda _: None, environ=environ())

    def sell(self) -> None:
        new = range(len(self.sales), len(self.sales) + self.dice.randrange(1, 30))
        numbers = [*new, *self.dice.sample(self.sales, min(len(self.sales), self.dice.randrange(4)))]
        self.dice.shuffle(numbers)
        self.sales += new
        produce(self.broker, self.topic, some(numbers), partition=self.dice.randrange(self.topic.partitions))

    def served(self) -> Served:
        """A server of the project."""
        place: Any = SimpleNamespace(state=self.settings.state, folder=self.folder, tables=self.tables)
        return Served(place)


def answers(selling: Selling, **asked: str) -> dict[str, Any]:
    with selling.served().asker() as server:
        return everything(server, **asked)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(CASES))
def test_a_release_answers_before_its_promotion_as_after_it(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    dice, topic = random.Random(seed), new_topic(broker)
    selling = Selling(tmp_path, broker, topic, dice, settings_for(broker, tmp_path / "state"), [])
    selling.define(DEFINITIONS)
    (tmp_path / "tandem.toml").touch()
    selling.sell()
    with running(spark, selling.settings, topic):
        for _ in range(dice.randrange(3)):
            wait_until_folded(selling.settings, broker, topic)
            write_archive.run(selling.run("archive"), selling.project)
            recompute.run(selling.run("recompute"), selling.project)
            selling.sell()
        changed = DEFINITIONS
        for old, new in dice.sample(CHANGES, dice.randrange(1, 4)):
            assert old in changed, old
            changed = changed.replace(old, new)
        selling.define(changed)
        done = apply.run(selling.run("apply"), selling.project, Terms(max_lag=10**6))
        assert done.release == 2
        selling.sell()
        for release in (1, 2):
            wait_until_folded(selling.settings, broker, topic, release)
        live, ready = answers(selling), answers(selling, **RELEASE)
        assert ready != live
        standing = StandingReleases(selling.tables)
        promotion.promote(standing, 2, days=7, max_lag=10**6, by="test", at=datetime.now(UTC))
        assert answers(selling) == ready == answers(selling, **RELEASE)
    counted = [number for number in selling.sales if "amount % 3" not in changed or number % 3]
    assert sum(row["n"] for row in ready["per_minute merged"]["rows"]) == len(counted)
