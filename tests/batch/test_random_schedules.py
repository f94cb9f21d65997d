"""Random schedules of real parts, with processes killed at random moments: answers are right.

The seed is in the test's name, `[3]`; only what a killed process gets done before it is killed hangs on the machine, too.
"""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tandem.infra import kafka
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import Position
from tandem.ledger.publish import adoption, promotion
from tandem.ledger.publish.publications import NotPublishable, Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import StandingReleases
from tandem.serving.read.outcome import Failed
from tandem.serving.read.reader import Reader
from tests.batch.shop import DEFINITIONS, Log, Shop, records, together, truth
from tests.speed.sales import wait_for
from tests.stack import PYTHONPATH, environ

pytestmark = [pytest.mark.broker, pytest.mark.slow]

STEPS = 8
NAMES = (
    *("produce", "archive", "incremental", "incremental", "full", "windows", "apply", "apply", "promote", "promote", "back"),
    *("maintain", "kill speed", "kill archive", "kill recompute", "kill apply"),
)
CHANGED = DEFINITIONS.replace("cents < 0", "cents < -10")
"""Other refunds."""


@dataclass
class Schedule:
    """A project, what was sold, and the speed layer, if it runs."""

    shop: Shop
    dice: random.Random
    log: Log = field(default_factory=lambda: {0: [], 1: []})
    speed: "subprocess.Popen[bytes] | None" = None
    done: list[str] = field(default_factory=list)

    def step(self) -> None:
        """One random step; what cannot be done at this moment says so, and changes nothing."""
        name = self.dice.choice(NAMES)
        self.done.append(name)
        self.sell()
        if name.startswith("kill "):
            self.kill(name.removeprefix("kill "))
        elif name != "produce":
            getattr(self, name)()

    def sell(self) -> None:
        known = [value for values in self.log.values() for value in values]
        more = records(self.dice.randrange(10**6), self.dice.randrange(20, 120), known=known)
        self.shop.sell(more)
        self.log = together(self.log, more)

    def archive(self) -> None:
        self.command("archive")

    def incremental(self) -> None:
        self.recompute()

    def full(self) -> None:
        self.recompute("--mode", "full")

    def windows(self) -> None:
        start = datetime(2026, 2, 27, tzinfo=UTC) + timedelta(hours=self.dice.randrange(60))
        end = start + timedelta(hours=self.dice.randrange(1, 40))
        self.recompute("--from", start.isoformat(), "--to", end.isoformat())

    def recompute(self, *arguments: str) -> None:
        if self.paused():
            promotion.resume(StandingReleases(self.shop.tables), by="test", at=datetime.now(UTC))
        self.command("recompute", "--archive", *arguments)

    def apply(self) -> None:
        live = Publications(self.shop.tables).latest()
        old = live is None or b"< -10" not in Releases(self.shop.tables).load(live.release).files["definitions.py"]
        self.shop.define(CHANGED if old else DEFINITIONS)
        self.command("apply", "--max-lag", "1000000")

    def promote(self) -> None:
        if promotion.ready(StandingReleases(self.shop.tables), days=7, at=datetime.now(UTC)):
            promotion.promote(StandingReleases(self.shop.tables), None, days=7, max_lag=10**9, by="test", at=datetime.now(UTC))

    def back(self) -> None:
        """To a publication of the past; one that cannot be gone back to says so."""
        live = Publications(self.shop.tables).latest()
        if live is None or live.number == 1:
            return
        try:
            self.shop.roll_back(self.dice.randrange(1, live.number))
        except (promotion.NotReady, NotPublishable):
            self.done[-1] += " (not possible)"

    def maintain(self) -> None:
        self.command("maintain")

    def kill(self, command: str) -> None:
        """A process of its own, and of all it starts, killed some time after its start; the speed layer begins anew."""
        if command == "speed":
            self.end_speed()
            self.start_speed()
            return
        process = self.start(command)
        try:
            process.wait(self.dice.uniform(1, 12))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def command(self, *arguments: str) -> None:
        """A command run to its end, as others are that are killed: it holds its locks no longer than it lives."""
        process = self.start(*arguments, stderr=subprocess.PIPE)
        _, said = process.communicate(timeout=600)
        assert process.returncode == 0, (self.done, arguments, said.decode())

    def start(self, *arguments: str, stderr: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", "tandem.cli", *arguments, "--project", str(self.shop.folder), "--json"],
            env=environ() | {"PYTHONPATH": PYTHONPATH},
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )

    def start_speed(self) -> None:
        self.speed = self.start("speed")

    def end_speed(self) -> None:
        if self.speed is not None:
            os.killpg(self.speed.pid, signal.SIGKILL)
            self.speed.wait()

    def paused(self) -> bool:
        live = Publications(self.shop.tables).latest()
        return live is not None and live.kind == "rollback"


@contextmanager
def running(shop: Shop, dice: random.Random) -> Iterator[Schedule]:
    one = Schedule(shop, dice)
    adoption.live(shop.tables, shop.project, by="test", at=datetime.now(UTC))
    one.start_speed()
    try:
        yield one
    finally:
        one.end_speed()


def answered(tables: Tables) -> tuple[Position, dict[str, Any] | None]:
    """Up to where the live release answers, and its answers."""
    reader = Reader(tables)
    if isinstance(snapshot := reader.refresh(), Failed):
        return Position(), None
    found: dict[str, Any] = {name: reader.answer(name) for name in ("per_hour", "refunds")}
    if any(isinstance(answer, Failed) for answer in found.values()):
        return Position(), None
    measures = ("n", "cents", "biggest", "usual")
    per_hour = {(row["shop"], row["window_start"]): tuple(row[name] for name in measures) for row in found["per_hour"].rows()}
    return snapshot.positions["sales"], {"per_hour": per_hour, "refunds": sum(row["n"] for row in found["refunds"].rows())}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.timeout(1800)
def test_a_random_schedule_ends_with_the_expected_answers(shop: Shop, seed: int) -> None:
    with running(shop, random.Random(seed)) as schedule:
        schedule.sell()
        for _ in range(STEPS):
            schedule.step()
        if schedule.paused():
            promotion.resume(StandingReleases(shop.tables), by="test", at=datetime.now(UTC))
        schedule.kill("speed")
        end = Position.of(kafka.ends(shop.connection, [shop.topic]))
        tables = shop.tables
        # What came beyond the dedup window, and copies that differ, are what a recompute is for; it also takes what was bridged.
        schedule.command("recompute", "--archive", "--publish-anyway")
        wait_for(lambda: answered(tables)[0] == end, seconds=300)
        found = answered(tables)[1]
        live = Publications(tables).latest()
        assert found is not None
        assert live is not None
        changed = b"< -10" in Releases(tables).load(live.release).files["definitions.py"]
        expected = truth(schedule.log, below=-10 if changed else 0)
        assert found["per_hour"] == expected.per_hour, schedule.done
        assert found["refunds"] == expected.refunds, schedule.done
