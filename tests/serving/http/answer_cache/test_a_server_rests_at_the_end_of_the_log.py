"""Where polls cost money, a server asks the broker whether there is more to count, and never waits for a broker that is away."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tandem.infra import kafka
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.serving.http.answer_cache.lane import WholeLog
from tandem.serving.memory.store import Pinned
from tests.serving.http.served import Served
from tests.serving.world import nine_hits
from tests.speed.hot.beside import Beside, away, beside, layer
from tests.speed.sales import some

__all__ = ["beside", "layer"]


def pinned(beside: Beside) -> Pinned:
    beside.connection.refresh()
    return beside.connection.snapshot().pinned


def test_it_rests_once_answers_count_every_record_of_every_partition(beside: Beside) -> None:
    watched = WholeLog(beside.layer.settings, lambda: 0.0)
    for partition in (0, 2):
        beside.layer.topic.append(some([partition]), partition=partition)
        assert not watched.counted(pinned(beside))
        beside.layer.drain()
        assert watched.counted(pinned(beside))


def test_a_broker_that_is_away_is_asked_twice_a_minute(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = [0.0], []
    watched = WholeLog(beside.layer.settings, lambda: now[0])
    found = pinned(beside)
    assert watched.counted(found)

    def counting(fails: Callable[..., Any]) -> Callable[..., Any]:
        def fail(*given: Any) -> None:
            asked.append(now[0])
            fails(*given)

        return fail

    with monkeypatch.context() as patch:
        patch.setattr(kafka, "topics", counting(away("no broker")))
        for now[0] in (1.0, 2.0, 30.0, 31.0, 32.0):
            assert not watched.counted(found)
    assert asked == [1.0, 31.0]
    now[0] = 61.0
    assert watched.counted(found)


def test_a_log_without_a_topic_is_not_counted(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise kafka.NoTopic("topic 'sales' does not exist")

    watched = WholeLog(Settings(state=beside.layer.settings.state), lambda: 0.0)
    monkeypatch.setattr(kafka, "topics", missing)
    assert not watched.counted(pinned(beside))


def test_a_server_rests_where_polls_cost_money(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, asked = nine_hits(tmp_path), []
    monkeypatch.setattr(WholeLog, "counted", lambda _, found: asked.append(found) or True)

    def rest(*, local: bool) -> bool:
        with monkeypatch.context() as patch:
            patch.setattr(Tables, "local", property(lambda _: local))
            server = Served(world).server
        found: Any = None
        return server.lane.rests(found)

    assert (rest(local=True), len(asked)) == (False, 0)
    assert (rest(local=False), len(asked)) == (True, 1)
