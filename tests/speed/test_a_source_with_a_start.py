"""A source with a start counts the same in every layer: batch, speed, merged, a replay and the oracle."""

import json
import random
from pathlib import Path

import pytest

from tandem.batch.recompute.plan import RecomputeRequest
from tandem.batch.verify.oracle_sample import sampled
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.releases import Releases
from tandem.views.project.project import STARTS_FILE, load_files
from tandem.views.start import StartPositions
from tests.samples import LONGER
from tests.speed.sales import answered, folded, per_minute, project_files, some
from tests.speed.test_in_one_process import Layer, layer, replayed

__all__ = ["layer"]


@pytest.mark.parametrize("seed", range(30 if LONGER else 1))
def test_at_every_cut_all_layers_count_from_the_start_on(
    layer: Layer, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies on both sides of the start: what is before it does not count, so that the first after it does."""
    dice = random.Random(seed)
    first = {number: dice.randrange(40) for number in (0, 2)}
    topic = layer.topic.topic
    starts = StartPositions.of("now", (topic.name,), {(topic.id, number): offset for number, offset in first.items()})
    definitions = project_files(topic.name)["definitions.py"].replace(b'identity=("id",)', b'identity=("id",), start="now"')
    files = {
        **project_files(topic.name),
        "definitions.py": definitions,
        STARTS_FILE: json.dumps({"sales": starts.to_json()}).encode(),
    }
    monkeypatch.setattr(Layer, "files", files)
    numbers: dict[int, list[int]] = {0: [], 2: []}

    def counted() -> list[int]:
        return [each for number, of in numbers.items() for each in of[first[number] :]]

    layer.start()
    for step in range(8):
        for partition, sold in numbers.items():
            chunk = [dice.randrange(60) for _ in range(dice.randrange(1, 12))]
            layer.topic.append(some(chunk), partition=partition)
            sold.extend(chunk)
        layer.drain()
        assert folded(layer.settings) == layer.end
        assert answered(layer.settings) == per_minute(counted()), "merged"
        if dice.random() < 0.4:
            layer.restart()
        if dice.random() < 0.5 or step == 7:
            layer.archive()
            live = layer.recompute()
            assert answered(layer.settings) == per_minute(counted()), "batch"
            assert live.counts["sales"].skipped == sum(min(first[n], len(of)) for n, of in numbers.items())
    for request in (RecomputeRequest(mode="full"), RecomputeRequest(mode="full", raw=True)):
        live = layer.recompute(request)
        assert answered(layer.settings) == per_minute(counted())
    release = Releases(layer.tables).load(1)
    found = replayed(layer, release, live, Tables(str(tmp_path / "replayed")), most=7)
    assert (found.counts.events, found.counts.skipped) == (live.counts["sales"].events, live.counts["sales"].skipped)
    project = load_files(release.files)
    compared = sampled(layer.tables, live, release, project.sources["sales"], project.views, keys=5)
    assert [one.differ for one in compared] == [0, 0]
