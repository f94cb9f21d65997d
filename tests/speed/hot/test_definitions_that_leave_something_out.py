"""A dated view, a source with a start and a view that keeps windows, alone and together: each answer is the one of the oracle.

Speed layer, hot tail, archive and recomputes run in one process in a random order. What an answer leaves out follows from its
position and from the live cut alone, so plain Python says it from the log.
"""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from tandem.batch.recompute.plan import RecomputeRequest
from tandem.batch.verify.oracle_sample import sampled
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Releases
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.speed.hot.follow import HotTailEnded
from tandem.views.composite.dated import DatedView
from tandem.views.project.earlier_files import EarlierFiles
from tandem.views.project.project import STARTS_FILE
from tandem.views.start import StartPositions
from tests.speed.hot.beside import Beside, layer
from tests.speed.sales import START, project_files, sale
from tests.speed.test_in_one_process import Layer

__all__ = ["layer"]

FROM: Final = START + timedelta(minutes=20)
KEEP: Final = timedelta(minutes=15)
STARTS: Final = {0: 25, 2: 12}
PARTS: Final = ("dated", "start", "keep")

Rows = dict[tuple[str, str], tuple[int, int, int | None]]


def second(number: int) -> int:
    """The time of a sale, which follows from its number: most are a little late, some very late."""
    return max(0, number * 40 - number * 7 % 90 - (900 if number % 6 == 0 else 0))


def sold(number: int) -> bytes:
    return sale(number, seconds=second(number), shop="abc"[number % 3], amount=number)


@dataclass(frozen=True)
class PartialDefinitions:
    """Definitions of `per_minute` that leave something out: the named parts of PARTS."""

    parts: tuple[str, ...]

    def files(self, layer: Layer) -> dict[str, bytes]:
        """The files of the release."""
        topic, files = layer.topic.topic, project_files(layer.topic.topic.name)
        text = files["definitions.py"].decode()
        starts = StartPositions.of("now", (topic.name,), {(topic.id, number): first for number, first in STARTS.items()})
        if "start" in self.parts:
            text = text.replace('identity=("id",)', 'identity=("id",), start="now"')
            files[STARTS_FILE] = json.dumps({"sales": starts.to_json()}).encode()
        if "keep" in self.parts:
            text = text.replace('"sum": total("amount")}', '"sum": total("amount")}, keep=timedelta(minutes=15)')
        earlier = {**files, "definitions.py": text.encode()}
        if "dated" not in self.parts:
            return earlier
        newer = text.replace(
            '"sum": total("amount")}', '"sum": total("amount"), "most": maximum("amount")}, where="amount % 4 <> 1"'
        )
        return EarlierFiles({**files, "definitions.py": newer.encode()}, {"per_minute": [(earlier, FROM)]}).files

    def expected(self, layer: Layer, position: Position, cut: Position) -> Rows:
        """What `per_minute` answers at a position, once the windows that had left at a cut are gone."""
        times = [second(number) for number in self._numbers(layer, cut)]
        groups: dict[tuple[str, str], list[int]] = {}
        for number in self._numbers(layer, position):
            minute = START + timedelta(minutes=second(number) // 60)
            after = minute + timedelta(minutes=1) - START
            if "keep" in self.parts and times and after <= timedelta(seconds=max(times)) - KEEP:
                continue
            if "dated" in self.parts and minute >= FROM and number % 4 == 1:
                continue
            groups.setdefault((minute.strftime("%Y-%m-%dT%H:%M:%SZ"), "abc"[number % 3]), []).append(number)
        return {
            key: (len(numbers), sum(numbers), max(numbers) if "dated" in self.parts and self._dated(key[0]) else None)
            for key, numbers in groups.items()
        }

    def _dated(self, minute: str) -> bool:
        return datetime.fromisoformat(minute) >= FROM

    def _numbers(self, layer: Layer, position: Position) -> set[int]:
        """The numbers of the sales that count below a position, each once."""
        topic = layer.topic
        return {
            json.loads(row["value"])["id"]
            for partition, rows in topic.rows.items()
            for offset, row in enumerate(rows[: position.get((topic.topic.id, partition), 0)])
            if row is not None and row["value"].startswith(b"{")
            if "start" not in self.parts or offset >= STARTS.get(partition, 0)
        }


def rows_of(rows: Any) -> Rows:
    return {(row["window_start"], row["shop"]): (row["n"], row["sum"], row.get("most")) for row in rows}


def live(layer: Layer) -> Publication:
    found = Publications(layer.tables).latest()
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("parts", [("dated",), ("start",), ("keep",), ("dated", "keep"), PARTS], ids="+".join)
class TestDefinitionsThatLeaveSomethingOut:
    """Each of them, at every position that a random schedule reaches."""

    @pytest.mark.each_run("dated+start+keep-0")
    def test_every_layer_answers_as_the_oracle(
        self, layer: Layer, parts: tuple[str, ...], seed: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        definitions, dice, next_sale = PartialDefinitions(parts), random.Random(seed), 0
        monkeypatch.setattr(Layer, "files", definitions.files(layer))
        layer.start()
        beside = Beside(layer)
        beside.start()

        def check(answer: Callable[[], Mapping[Any, Any]], position: Position) -> None:
            assert answer() == definitions.expected(layer, position, live(layer).cut("sales")), position

        def held() -> Rows:
            return rows_of(beside.connection.view("per_minute").scan().rows())

        def batch() -> Rows:
            return rows_of(given(Reader(layer.tables).answer("per_minute", layer="batch")).rows())

        for step in range(26):
            for partition in (0, 2):
                next_sale += dice.randrange(3)
                numbers = [max(0, next_sale - dice.choice((0, 0, 1, 2, 30))) for _ in range(dice.randrange(5))]
                layer.topic.append([*map(sold, numbers), b"no sale"], partition=partition)
            match dice.choice(("read", "read", "read", "commit", "commit", "restart", "restart layer", "recompute", "recompute")):
                case "commit":
                    layer.streaming.trigger(dice.random)
                case "restart":
                    beside.start()
                case "restart layer":
                    layer.restart()
                case "recompute" if step > 5:
                    layer.archive()
                    layer.drain()
                    layer.recompute(RecomputeRequest(mode=dice.choice(("auto", "full"))))
                    check(batch, live(layer).cut("sales"))
            try:
                beside.step()
            except HotTailEnded:  # commits passed it
                beside.start()
            check(held, beside.position)
        layer.drain()
        beside.step()
        check(held, layer.end)
        layer.archive()
        for request in (RecomputeRequest(), RecomputeRequest(mode="full", raw=True)):
            layer.recompute(request)
            check(batch, layer.end)
        assert beside.feed.compared > 0
        assert beside.feed.mismatched == 0
        release = Releases(layer.tables).load(1)
        views = {"per_minute": layer.project.views["per_minute"]}
        assert isinstance(views["per_minute"], DatedView) == ("dated" in parts)
        (compared,) = sampled(layer.tables, live(layer), release, layer.project.sources["sales"], views, keys=5)
        assert (compared.keys, compared.differ) == (3, 0)
