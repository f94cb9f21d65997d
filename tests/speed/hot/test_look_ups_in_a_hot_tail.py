"""Hot answers of views that look up in a table are the oracle's at their positions in every row that is not labelled."""

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tandem.infra import kafka
from tandem.ledger.hot.feed import HotFeed
from tandem.ledger.publish.releases import Releases
from tandem.serving.connection import Connection
from tandem.serving.memory.store import Store
from tandem.serving.read.outcome import given
from tandem.speed.hot.follow import HotFollower, HotTailEnded
from tandem.views.project.project import load_files
from tests import one_process
from tests.speed.test_look_ups_in_one_process import Shop, checked, order, price, shop_in

VIEWS = ("by_time", "in_all", "by_chain", "by_now")


@dataclass
class HotShop:
    """A shop, and a server with hot tails of both of its sources."""

    shop: Shop
    seconds: float = 0.0
    tails: dict[str, HotFollower] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.feed = HotFeed(lambda: self.seconds)
        self.connection = Connection(Store(self.shop.orders.tables, 1, hot=self.feed))

    def start(self, name: str) -> None:
        layer = self.shop.prices if name == "prices" else self.shop.orders
        release = Releases(layer.tables).load(1)
        project = load_files(release.files)
        views = {each: view for each, view in project.views.items() if view.source.name == name}
        self.tails[name] = HotFollower(
            layer.settings,
            layer.tables,
            kafka.connect(one_process.ADDRESS),
            release,
            project.sources[name],
            views,
            layer.now,
            self.feed.apply,
            lambda: self.seconds,
            cpu=lambda: self.seconds,
        )
        self.tails[name].begin()

    def step(self, name: str) -> None:
        self.seconds += 6
        try:
            self.tails[name].step(0)
        except HotTailEnded:  # commits passed it
            self.start(name)

    def refuse_wrong(self) -> None:
        self.connection.refresh()
        snapshot = self.connection.snapshot()
        for name in VIEWS:
            at = snapshot.view(name)
            answer = given(at.scan())
            checked(self.shop, name, answer.rows(), at.provenance)


@pytest.mark.parametrize(
    ("seed", "table_mb"), [(0, 0), pytest.param(1, 64, marks=pytest.mark.slow), pytest.param(2, 0, marks=pytest.mark.slow)]
)
def test_a_hot_row_without_a_label_is_the_oracles(
    seed: int, table_mb: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shop_in(tmp_path, monkeypatch, table_mb)
    one_process.hot_stands_in(monkeypatch, shop.orders.broker)
    shop.prices.start()
    shop.orders.start()
    hot, dice, now = HotShop(shop), random.Random(seed), 0
    for name in ("prices", "orders"):
        hot.start(name)
    for _ in range(14):
        now += dice.randrange(400)
        shop.prices.topic.append([price(dice, now) for _ in range(dice.randrange(3))], partition=dice.randrange(2))
        shop.orders.topic.append([order(dice, now) for _ in range(dice.randrange(6))], partition=dice.randrange(2))
        what = dice.choice(("prices", "orders", "hot", "hot", "hot", "recompute"))
        if what in ("prices", "orders"):
            (shop.prices if what == "prices" else shop.orders).streaming.trigger(dice.random)
        if what == "recompute":
            shop.prices.drain()
            shop.orders.drain()
            shop.orders.archive()
            shop.recompute()
        for name in ("prices", "orders"):
            hot.step(name)
        hot.refuse_wrong()
    assert hot.feed.mismatched == 0
    assert hot.tails["orders"].tail.end == shop.orders.end, "answers count all orders"
    assert bool({*tmp_path.glob("speed/*/*.arrow")}) == (not table_mb)
    for follower in hot.tails.values():
        follower.close()
    assert not {*tmp_path.glob("speed/*")}
