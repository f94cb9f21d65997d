"""Any log, any condition, killed anywhere: answers are those of the log without the erased events, and no file has their ids.

A case is a random walk: records are sold, archived and recomputed, an alert looks, and erasures with random conditions are
killed before random looks at the clock and finished by a later run. The oracle is plain Python over lists.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.erase.find_records import where
from tandem.batch.erase.prove import prove
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.publish.standing import StandingReleases
from tests.batch.erase.test_outputs_lose_the_records import WITH_ALERT, follower, look
from tests.batch.shop import MALFORMED, MemoryShop, assert_true
from tests.killed import Killed
from tests.samples import LONGER

CASES = 200 if LONGER else 4
START = datetime(2026, 3, 1, tzinfo=UTC)
Sale = Mapping[str, Any]
Condition = tuple[str, Callable[[Sale], bool]]
"""SQL, and what it means in Python."""


def condition(dice: random.Random, depth: int = 0) -> Condition:
    """A condition over the fields of a sale."""
    kind = dice.randrange(5 if depth == 2 else 8)
    if kind == 0:
        name = f"shop {dice.randrange(4)}"
        return f"shop = '{name}'", lambda sale: sale["shop"] == name
    if kind == 1:
        cents = dice.randrange(-60, 500)
        return f"cents < {cents}", lambda sale: sale["cents"] < cents
    if kind == 2:
        time = START + timedelta(minutes=dice.randrange(90))
        return f"\"at\" >= TIMESTAMPTZ '{time.isoformat()}'", lambda sale: datetime.fromisoformat(sale["at"]) >= time
    if kind == 3:
        digit = str(dice.randrange(10))
        return f"id LIKE '%{digit}'", lambda sale: sale["id"].endswith(digit)
    if kind == 4:
        ids = [identity(dice.randrange(120)) for _ in range(5)]
        return f"id IN ({', '.join(map(repr, ids))})", lambda sale: sale["id"] in ids
    (left, of_left), (right, of_right) = condition(dice, depth + 1), condition(dice, depth + 1)
    if kind == 5:
        return f"({left}) AND ({right})", lambda sale: of_left(sale) and of_right(sale)
    if kind == 6:
        return f"({left}) OR ({right})", lambda sale: of_left(sale) or of_right(sale)
    return f"NOT ({left})", lambda sale: not of_left(sale)


def identity(number: int) -> str:
    """An id of which none is a part of another."""
    return f"sale-{number:05}-"


@dataclass
class Walk:
    """A shop, and its log as lists: `archived` by partition, and what was sold since; `log` is what is left of both."""

    shop: MemoryShop
    dice: random.Random
    archived: dict[int, list[bytes | None]] = field(default_factory=lambda: {0: [], 1: []})
    fresh: dict[int, list[bytes | None]] = field(default_factory=lambda: {0: [], 1: []})
    gone: set[str] = field(default_factory=set)
    kills: int = 0
    number: int = 0

    def sell(self) -> None:
        """Sales, some of them copies of earlier ones, which may have another price; and malformed records."""
        some: dict[int, list[bytes | None]] = {0: [], 1: []}
        for _ in range(self.dice.randrange(1, 40)):
            dice = self.dice
            if dice.random() < 0.05:
                some[dice.randrange(2)].append(dice.choice(MALFORMED))
                continue
            number = dice.randrange(self.number) if self.number and dice.random() < 0.1 else self.number
            self.number = max(self.number, number + 1)
            of_id = random.Random(number)  # a copy has the time and the shop of its first
            sale = {
                "id": identity(number),
                "at": (START + timedelta(seconds=of_id.randrange(90 * 60))).isoformat(),
                "shop": f"shop {of_id.randrange(4)}",
                "cents": dice.randrange(-50, 500) if dice.random() < 0.2 else of_id.randrange(-50, 500),
            }
            some[dice.randrange(2)].append(json.dumps(sale).encode())
        self.shop.sell(some)
        for partition, values in some.items():
            self.fresh[partition] += values

    def archive(self) -> None:
        write_archive.run(self.shop.run("archive"), self.shop.project)
        for partition, values in self.fresh.items():
            self.archived[partition] += values
        self.fresh = {0: [], 1: []}

    def recompute(self) -> None:
        self.archive()
        kind = self.dice.choice([RecomputeRequest(), RecomputeRequest(mode="full"), RecomputeRequest(mode="full", raw=True)])
        live = recompute.run(self.shop.run("recompute"), self.shop.project, kind).publication
        assert_true(self.shop, live, self.archived)

    def look(self) -> None:
        look(follower(self.shop))

    def forget(self) -> None:
        """Erase what a random condition selects, killed up to three times."""
        if self.dice.random() < 0.8:
            self.archive()
        text, of = condition(self.dice)
        if not any(self.archived.values()):
            return
        for _ in range(self.dice.randrange(4)):
            ticks = iter(range(self.dice.randrange(1, 25)))

            def now(ticks: Iterator[int] = ticks) -> datetime:
                if next(ticks, None) is None:
                    raise Killed
                return datetime.now(UTC)

            try:
                self.shop.forget(lambda source: where(source, text), replace(self.shop.run("forget"), now=now))
            except Killed:
                self.kills += 1
        done = self.shop.forget(lambda source: where(source, text))
        for partition, values in self.archived.items():
            left = [value for value in values if value in MALFORMED or not of(json.loads(value or b""))]
            self.gone |= {json.loads(value or b"")["id"] for value in values if value not in left}
            self.archived[partition] = left
        if not done:  # nothing was selected, or a killed run had finished
            recompute.run(self.shop.run("recompute"), self.shop.project)
        self.check()

    def check(self) -> None:
        """The live answers are those of what is left, and no file has an id of which no record is left."""
        live = StandingReleases(self.shop.tables).publications.latest()
        assert live is not None
        assert_true(self.shop, live, self.archived)
        if erased := Erasures(self.shop.tables).of("sales"):
            assert erased[-1].complete
            values = [value for log in (self.archived, self.fresh) for each in log.values() for value in each]
            there = {json.loads(value or b"")["id"] for value in values if value not in MALFORMED}
            proof = prove(self.shop.tables, erased[-1], sorted(self.gone - there))
            assert (dict(proof.hits), any(proof.rows.values())) == ({}, False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(CASES))
def test_any_erasure_leaves_the_answers_of_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    shop = MemoryShop.of(tmp_path, monkeypatch)
    shop.define(WITH_ALERT)
    walk = Walk(shop, random.Random(seed))
    walk.sell()
    walk.recompute()
    for _ in range(8):
        walk.dice.choice([walk.sell, walk.archive, walk.recompute, walk.look, walk.forget, walk.forget])()
    walk.forget()
