"""A source waits for its broker only while that may still answer: a broker at another address ends the wait at once."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from tandem.infra import kafka
from tandem.infra.settings import Settings, SpeedSettings
from tandem.speed.process.source_thread import Wait
from tandem.speed.progress import ProgressRecorder
from tandem.speed.source.follow import Surroundings
from tests.infra.kafka.begun import begun


def other_port(settings: Settings) -> None:
    begun(settings, port=3, pid=os.getpid())


def other_password(settings: Settings) -> None:
    (settings.folder / "broker" / "password").write_text("x" * 40)
    begun(settings, port=1, pid=os.getpid())


@pytest.mark.parametrize("moves", [other_port, other_password])
def test_a_broker_that_has_moved_ends_the_wait_at_once(tmp_path: Path, moves: Callable[[Settings], None]) -> None:
    settings = Settings(state=str(tmp_path), speed=SpeedSettings(broker_wait_s=600))
    unused: Any = None
    connection = kafka.BrokerConnection(begun(settings, port=1, pid=os.getpid()), unused, unused)
    source: Any = SimpleNamespace(name="sales", topics=("sales",))
    said: list[str] = []
    around = Surroundings(
        spark=unused,
        settings=settings,
        tables=unused,
        connection=connection,
        checkpoints=tmp_path,
        by="me",
        now=lambda: datetime.now(UTC),
        warn=said.append,
        reporter=unused,
        stopping=lambda: False,
        recorder=ProgressRecorder(tmp_path, os.getpid()),
    )
    moves(settings)
    with pytest.raises(kafka.BrokerRefused, match=r"start the speed layer again$"):
        Wait(around, 1, source, Event()).until_there(kafka.NoBroker("it does not answer"))
    assert len(said) == 1
