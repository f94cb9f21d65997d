"""The supervisor gives each part the time that its settings allow."""

from pathlib import Path

import pytest

from tandem.cli.command.call import Call
from tandem.cli.run.part_processes import SPEED
from tandem.cli.run.supervised_parts import supervised
from tandem.infra.settings import Settings, SpeedSettings, SupervisorSettings


@pytest.mark.parametrize(
    ("trigger_ms", "hot_trigger_ms", "moving_s"), [(0, 0, 5), (60_000, 0, 65), (0, 9_000, 14), (500, 500, 6)]
)
def test_a_speed_layer_that_waits_between_micro_batches_makes_progress(
    trigger_ms: int, hot_trigger_ms: int, moving_s: float, tmp_path: Path
) -> None:
    speed = SpeedSettings(trigger_ms=trigger_ms, hot_trigger_ms=hot_trigger_ms)
    settings = Settings(state=str(tmp_path), speed=speed, supervisor=SupervisorSettings(trigger_s=5))
    parts = supervised(Call(tmp_path, json=False, debug=False, environ={}), settings)
    assert [part.moving_s for part in parts if part.name == SPEED] == [moving_s]
