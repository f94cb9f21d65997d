"""The edges of a rehearsal are those that the process of alerts stores when it looks at the same checkpoints."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tandem.batch.rehearse.rehearse import rehearse
from tandem.batch.release.release_plan import Terms
from tandem.cli.release.rehearse import output
from tandem.cli.release.rehearsed_alerts import edges_of
from tandem.cli.release.rehearsed_rows import compare_rows
from tandem.infra.settings import Settings
from tandem.serving.memory.store import Store
from tandem.serving.sinks.alerts.book import open_book
from tandem.serving.sinks.alerts.episodes import Edge
from tandem.serving.sinks.alerts.follow import AlertFollower
from tandem.views.project.project import Project, load_files
from tests import one_process
from tests.one_process import MemoryBroker
from tests.speed.sales import DEFINITIONS, START, sale
from tests.speed.test_in_one_process import Layer

ALERTS = """
from tandem import Alert, rollup, session

visits = View(source=sales, keys={{"shop": "shop"}}, window=session(minutes=4), measures={{"n": count(), "sum": total("amount")}})
hours = rollup(per_minute, keys=(), window=tumbling(minutes=10))
many = Alert(per_minute, when="n >= 2", text="{{shop}}: {{n}}")
low = Alert(per_minute, when="sum < 25", clear="sum > 30", within=timedelta(minutes=30), name="low")
done = Alert(per_minute, when="sum < 40", states=("final",), text="{{window_state}}")
slow = Alert(hours, when="n > 4", hold=timedelta(minutes=7))
long = Alert(visits, when="n = 3", text="{{window_start}}")
ever = Alert(per_shop, when="most - n > 20")
VIEWS = (per_minute, per_shop, visits, hours)
ALERTS = (many, low, done, slow, long, ever)
"""
EVERY = timedelta(minutes=5)


@dataclass
class AlertedLayer(Layer):
    """A speed layer of a project with alerts."""

    @property
    def files(self) -> dict[str, bytes]:
        text = DEFINITIONS + ALERTS
        return {"definitions.py": text.format(topic=self.topic.topic.name).encode(), "tandem.toml": b""}


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AlertedLayer:
    broker = MemoryBroker()
    broker.stand_in(monkeypatch)
    one_process.speed_stands_in(monkeypatch, broker)
    return AlertedLayer(broker, broker.new_topic(partitions=2), Settings(state=str(tmp_path)))


def shape(edge: Edge) -> tuple[Any, ...]:
    """What a person reads of an edge; its id and its positions depend on publications and releases."""
    place = tuple(sorted(edge.place.items(), key=str))
    rows = [None if stated.row is None else dict(stated.row) for stated in (edge.raised, edge.now)]
    return edge.alert, edge.kind, edge.because, place, edge.text, str(rows), edge.since, edge.at


def arrive(layer: AlertedLayer, dice: random.Random, until: datetime, sold: list[tuple[float, str]]) -> None:
    """A few sales of the five minutes before, some in the minute of an earlier one, some of them twice; now and then none."""
    for _ in range(dice.randrange(12)):
        at, shop = (until - START).total_seconds() - dice.uniform(0, 300), dice.choice("ab")
        if sold and dice.random() < 0.4:
            at, shop = dice.choice(sold)
        sold.append((at, shop))
        value = sale(dice.randrange(1_000_000), seconds=at, shop=shop, amount=dice.randrange(45))
        partition = dice.randrange(2)
        layer.topic.append([value] * dice.choice((1, 1, 2)), partition=partition, at=until - timedelta(seconds=1))


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_alerts_of_both_sides_are_those_of_a_process_at_the_checkpoints(layer: AlertedLayer, seed: int) -> None:
    dice, stored, time = random.Random(seed), list[Edge](), START + timedelta(days=1)
    layer.start()
    clock, sold = [time], list[tuple[float, str]]()
    project = layer.project
    followers: dict[str, AlertFollower] = {}
    store = Store(layer.tables, 1)
    for step in range(14):
        time += EVERY
        clock[0] = time
        arrive(layer, dice, time, sold)
        if step == 13:
            layer.topic.append([sale(-1, seconds=(time - START).total_seconds())], at=time)
        layer.drain()
        for alert in project.alerts.values() if step else ():
            if alert.name not in followers:
                followers[alert.name] = AlertFollower(store, alert, open_book(layer.tables, alert.name), (), lambda: clock[0])
            store.refresh()
            stored += [edge for edge in followers[alert.name].look(store.pinned()) if not edge.quiet]
    layer.archive()
    layer.recompute()
    rehearsal = rehearse(
        one_process.run(layer.settings, "rehearse"),
        project,
        Terms(),
        partial(compare_rows, 3),
        since=12 * EVERY,
        every=EVERY,
    )
    assert [datetime.fromtimestamp(at / 1e6, UTC) for at in rehearsal.checkpoints] == [
        time - n * EVERY for n in range(12, -1, -1)
    ]
    edges = edges_of(rehearsal)
    for side in ("old", "new"):
        assert sorted(shape(each.edge) for each in edges if each.side == side) == sorted(map(shape, stored))
    kinds = {edge.kind for edge in stored}
    assert kinds == {"raised", "cleared", "corrected"}
    document: Any = output(rehearsal).document
    assert all(edge["sides"] == ["live", "release"] for each in document["checkpoints"] for edge in each["alerts"])
    assert sum(of["live"]["raised"] for of in document["alerts"].values()) == sum(edge.kind == "raised" for edge in stored)


def edit(project: Project, edits: Mapping[str, str]) -> Project:
    text = project.files["definitions.py"].decode()
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    return load_files({**project.files, "definitions.py": text.encode()})


def test_another_condition_of_an_alert_alone_makes_a_difference(layer: AlertedLayer) -> None:
    layer.start()
    for minute, number in ((1, 2), (2, 3)):
        sales = [sale(10 * minute + each, seconds=60 * minute, amount=40) for each in range(number)]
        layer.topic.append(sales, at=START + timedelta(minutes=5 * minute))
    layer.drain()
    layer.archive()
    layer.recompute()
    wanted = edit(layer.project, {'many = Alert(per_minute, when="n >= 2"': 'many = Alert(per_minute, when="n >= 3"'})
    rehearsal = rehearse(
        one_process.run(layer.settings, "rehearse"), wanted, Terms(), partial(compare_rows, 3), since=EVERY, every=EVERY
    )
    result = output(rehearsal)
    assert isinstance(result.document, dict)
    text = str(result.shown)
    assert result.document["alerts"]["many"] == {
        "live": {"raised": 2, "cleared": 0, "corrected": 0},
        "release": {"raised": 1, "cleared": 0, "corrected": 0},
    }
    assert "alert many raised because of events, only live: a: 2 (" in text
    assert "alert many raised because of events, both: a: 3 (" in text
    assert "view per_minute: 2 rows the same, 0 changed, 0 only live, 0 only release 2" in text
