"""The demo's screen as a person sees it: a terminal of 80 columns, over real tables; what looks like a sum is one."""

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import islice
from pathlib import Path

import pytest
from rich.console import Console

from tandem.cli.demo.late_event import DAYS, LateEvent, late_sample
from tandem.cli.demo.layered_values import Scene, observe, screen_views
from tandem.cli.demo.screen import Activity, screen
from tandem.cli.demo.watcher import Watcher
from tandem.cli.log import generate
from tandem.cli.records.record_keys import SourceSample
from tandem.infra.folders import ROOT
from tandem.infra.kafka import Topic
from tandem.infra.settings import Settings, SpeedSettings
from tandem.ledger.log.positions import Position
from tandem.views.project.project import load
from tests import one_process
from tests.cli.demo.terminal import COLUMNS, frames, opened, read_to_end, sums, words
from tests.one_process import MemoryBroker, MemoryTopic
from tests.speed.sales import sale, some
from tests.speed.test_in_one_process import Layer

ACTIVITY = Activity(
    "batch 2 archives the log and folds what is new (7 s)",
    "it publishes a cut: below it answers come from batch",
)


@dataclass
class Shop(Layer):
    """A layer with a view without keys and a rollup, too."""

    @property
    def files(self) -> dict[str, bytes]:
        more = (
            b"\nfrom tandem import mean, minimum, rollup"
            b"\ntotals = View(source=sales, measures={'n': count(), 'sum': total('amount'),"
            b" 'odd': count(filter='amount % 2 = 1'), 'mean': mean('amount'), 'first': minimum('\"at\"')})"
            b"\never = rollup(per_shop, keys=(), measures=('n',))"
            b"\nVIEWS = (per_minute, per_shop, totals, ever)\n"
        )
        files = super().files
        return {**files, "definitions.py": files["definitions.py"] + more}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    broker = MemoryBroker()
    broker.stand_in(monkeypatch)
    one_process.speed_stands_in(monkeypatch, broker)
    settings = Settings(state=str(tmp_path), speed=SpeedSettings(max_events=400))
    return Shop(broker, broker.new_topic(partitions=2), settings)


@dataclass
class DemoLayer(Layer):
    """A layer of a source of the demo's own project."""

    @property
    def files(self) -> dict[str, bytes]:
        return {name: (ROOT / "examples" / "demo" / name).read_bytes() for name in ("definitions.py", "tandem.toml")}


def watched(shop: Shop) -> Watcher:
    return Watcher(shop.settings, shop.project, ["sales"])


def seen(scene: Scene | None, notes: Sequence[str] = ()) -> list[str]:
    """The lines of the screen on the terminal, without colours."""
    person, program = opened()
    with os.fdopen(program, "w", encoding="utf-8") as file:
        console = Console(file=file)
        assert (console.is_terminal, console.width) == (True, COLUMNS)
        console.print(screen(scene, ACTIVITY, 1_234.0, notes))
    (lines,) = frames(read_to_end(person).decode())
    return lines


def scene_of(watcher: Watcher) -> Scene:
    scene = observe(watcher, screen_views(watcher.every_view))
    assert scene is not None
    return scene


def test_every_sum_on_the_screen_is_one_before_at_and_after_a_cut(shop: Shop) -> None:
    shop.start()
    watcher = watched(shop)
    dice, sent = random.Random(1), 0
    for step in range(4):
        # Each step sends old events again, some of them out of reach of the speed layer's window.
        numbers = [*range(sent, sent + 600), *dice.choices(range(sent + 1), k=40)]
        shop.topic.append([*some(numbers), b"not a sale"], partition=step % 2)
        sent += 600
        shop.drain()
        lines = seen(scene_of(watcher))
        rows, (below, after) = sums(lines), words(lines)
        assert rows["totals", "n"][2] == sent
        assert rows["totals", "sum"][2] == sum(range(sent))
        assert rows["totals", "odd"][2] == sent // 2
        assert [row["n"] for row in watcher.answers()["ever"]] == [sent], "answers of rollups are compared too"
        assert (below, after) == (641 * step, 641)
        assert (rows["totals", "n"][0] > 0) == (step > 0), "below the cut are answers of batch"
        assert rows["totals", "n"][1] > 0
        shop.archive()
        shop.recompute()
        assert words(seen(scene_of(watcher))) == (641 * (step + 1), 0)


@pytest.mark.slow
def test_the_demos_own_screen_has_sums_of_three_formats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Of the generator's records, before and after a cut. With --screenshots the screen is left as the README's picture."""
    broker = MemoryBroker()
    broker.stand_in(monkeypatch)
    one_process.speed_stands_in(monkeypatch, broker)
    settings, generator = Settings(state=str(tmp_path)), generate.load(ROOT / "examples" / "demo")
    for name in generator.sources:
        topic = Topic(name, f"id-of-{name}", 2)
        broker.topics[name] = MemoryTopic(topic, {0: [], 1: []})
    layers = [DemoLayer(broker, broker.topics[name], settings, source=name) for name in generator.sources]
    for layer in layers:
        layer.start()
    base = datetime(2026, 11, 1, 8, tzinfo=UTC)
    samples = generate.samples(generator, 1, None, base, 0.02)
    watcher = Watcher(settings, layers[0].project, generator.sources)
    late = late_sample(watcher.every_view.values(), generate.samples(generator, 2, None, base - timedelta(days=DAYS), 0.0))
    assert late is not None

    def send(sample: SourceSample, partition: int = 0) -> Position:
        broker.topics[sample[-1]].append([sample[1]], partition=partition)
        return watcher.log_end()

    def count(number: int) -> None:
        for sample in islice(samples, number):
            send(sample, len(sample[1]) % 2)
        for layer in layers:
            layer.drain()

    event = LateEvent(late, watcher, lambda: send(late.sample))
    count(3_000)
    layers[0].archive()
    published = layers[0].recompute()
    for layer in layers:
        layer.follow.tail.live = published
    count(2_000)
    for _ in range(3):
        event.step(scene_of(watcher).look)
        count(100)
    scene = scene_of(watcher)
    lines = seen(scene, event.notes())
    rows = sums(lines)
    assert sorted({view for view, _ in rows}) == ["parcels", "sales", "traffic"]
    assert all(batch and realtime for batch, realtime, _ in rows.values())
    assert words(lines) == (3_000, 2_302)
    assert "duplicate the same event again: still 1" in lines
    if folder := request.config.getoption("screenshots"):
        picture = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
        picture.print(screen(scene, ACTIVITY, 1_234.0, event.notes()))
        picture.save_svg(str(Path(folder, "demo.svg")), title="tandem demo")


def test_what_is_no_sum_is_below_and_has_no_sign(shop: Shop) -> None:
    shop.start()
    shop.topic.append(some(range(50)))
    shop.drain()
    shop.archive()
    shop.recompute()
    shop.topic.append(some(range(50, 80)))
    shop.drain()
    lines = seen(scene_of(watched(shop)))
    assert [measure for _, measure in sums(lines)] == ["n", "sum", "odd", "n"], "those of the rollup, too"
    at = lines.index("not sums: the states of both layers are merged")
    assert lines[at + 1].split() == ["totals", "mean", "24.50", "64.50", "39.50"]
    assert lines[at + 2].split() == [
        "totals",
        "first",
        "2026-11-01",
        "00:00:00",
        "2026-11-01",
        "00:05:50",
        "2026-11-01",
        "00:00:00",
    ]


def test_without_answers_the_screen_says_what_happens_and_what_comes_next(shop: Shop) -> None:
    assert observe(watched(shop), ["totals"]) is None
    assert seen(None) == [f"now       {ACTIVITY.now}", f"next      {ACTIVITY.next}", "", "Ctrl-C stops all parts of this demo"]


def test_a_late_event_and_its_duplicate_are_shown_being_counted_once(shop: Shop) -> None:
    shop.start()
    watcher = watched(shop)
    value = sale(7, seconds=-3 * 86_400, shop="b", amount=5)
    late = late_sample(watcher.every_view.values(), [(None, b"not a sale", None, "sales"), (None, value, {}, "sales")])
    assert late is not None
    assert (late.view.name, late.measure, late.row["shop"]) == ("per_minute", "n", "b")

    def send() -> Position:
        shop.topic.append([value])
        return shop.end

    event = LateEvent(late, watcher, send)

    def step() -> list[str]:
        scene = scene_of(watcher)
        event.step(scene.look)
        return [line for line in seen(scene, event.notes()) if line.startswith(("late ", "duplicate "))]

    shop.topic.append(some(range(30)))
    shop.drain()
    assert step() == [], "nothing is sent before a batch's cut"
    shop.archive()
    shop.recompute()
    sent = "late      an event 3 days late: per_minute at 2026-10-29 00:00"
    assert step() == [f"{sent} has 0"]
    assert step() == [f"{sent} has 0"], "not yet counted"
    shop.drain()
    assert step() == [f"{sent} had 0, has 1", "duplicate the same event again: sent"]
    shop.drain()
    assert step() == [f"{sent} had 0, has 1", "duplicate the same event again: still 1"]
    assert event.counts == [0, 1, 1]
    shop.archive()
    shop.recompute()
    assert scene_of(watcher).values[0].merged == 31


def test_the_screen_is_about_totals_or_else_about_one_view_whose_rows_add_up() -> None:
    """Sessions and windows in the order of the log merge across the layers, so their rows are no sums."""
    examples = ("web", "cards", "clicks", "sensors", "orders", "words")
    chosen = {name: screen_views(load(ROOT / "examples" / name).every_view) for name in examples}
    assert chosen == {
        "web": ["totals"],
        "cards": ["merchant_hours"],
        "clicks": ["overall"],
        "sensors": ["climate"],
        "orders": ["sales"],
        "words": ["totals"],
    }
