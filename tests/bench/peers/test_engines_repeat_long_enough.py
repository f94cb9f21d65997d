"""A fast engine repeats until samples of its CPU and memory meet some repetitions."""

import json
import time
from pathlib import Path

import pytest

from tandem.bench.peers.programs import batch_engines
from tandem.bench.peers.recompute import spans


def test_an_engine_repeats_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"repeat": 2}))
    monkeypatch.setattr(batch_engines, "ENGINES", {"one": lambda _: lambda: time.sleep(0.01)})
    monkeypatch.setattr("sys.argv", ["", "one", str(tmp_path / "config.json")])
    for least, repeated in ((0.0, range(2, 3)), (0.2, range(5, 21))):
        monkeypatch.setattr(batch_engines, "LEAST_S", least)
        batch_engines.main()
        assert len(spans(capsys.readouterr().out)) in repeated
