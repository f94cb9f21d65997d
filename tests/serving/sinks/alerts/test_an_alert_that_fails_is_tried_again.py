"""An alert that cannot take a step is reported once for a while, tried again as answers come, and holds no other alert."""

from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from tandem.infra.settings import AlertSettings
from tandem.serving.memory.store import Store
from tandem.serving.sinks.alerts import follow
from tandem.serving.sinks.alerts.book import open_book
from tandem.serving.sinks.alerts.delivery import Receiver, deliver, receivers_of
from tandem.serving.sinks.alerts.run import AlertRunner, alert_runner
from tandem.serving.sinks.alerts.stands import stands
from tandem.serving.sinks.posting import Undelivered
from tandem.views.alert import Alert
from tests.serving.sinks.alerts.receiver import receiver
from tests.serving.sinks.alerts.test_edges_fold_to_what_holds import a_world, alert, more
from tests.serving.world import World, hit


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = a_world(tmp_path)
    made.append(0, hit("/a", 1, minute=1), hit("/b", 2, minute=1))
    made.trigger()
    return made


def runner_of(world: World, warnings: list[str], *alerts: Alert, receivers: tuple[Receiver, ...] = ()) -> AlertRunner:
    store = Store(world.tables, 1)
    return alert_runner(store, alerts, receivers, tables=world.tables, clock=lambda: world.clock, warn=warnings.append)


def test_an_alert_of_too_many_rows_warns_once_a_minute(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "MOST", 1)
    warnings, edges, polls, stop = list[str](), list[str](), [0], Event()
    runner = runner_of(world, warnings, alert(world, "per_page", "n > 0", "wide"), alert(world, "per_page", "bytes > 1", "busy"))

    def poll() -> None:
        polls[0] += 1
        world.clock += timedelta(seconds=7)
        if polls[0] == 10:
            stop.set()

    runner.run(stop, 0, lambda found: edges.extend(edge.alert for edge in found), poll)
    assert edges == ["busy"]
    assert len(warnings) == 2, "at the first poll, and after a minute"
    assert set(warnings) == {"alert 'wide': 2 rows meet 'n > 0', more than 1; narrow the condition, or shorten `within`"}


def test_a_failing_alert_is_not_computed_at_each_poll_of_the_same_answers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "MOST", 1)
    warnings = list[str]()
    runner = runner_of(world, warnings, alert(world, "per_page", "n > 0"))
    runner.store.refresh()
    assert list(runner.step(runner.store.pinned())) == []
    monkeypatch.setattr(follow, "MOST", 9)
    assert list(runner.step(runner.store.pinned())) == []
    world.clock += timedelta(seconds=4)
    assert list(runner.step(runner.store.pinned())) == []
    more(world, hit("/c", 1, minute=1))
    runner.store.refresh()
    assert len(list(runner.step(runner.store.pinned()))) == 3, "other answers are tried at once"
    assert len(warnings) == 1


def test_a_receiver_that_the_settings_name_no_more_has_no_fault(world: World) -> None:
    with receiver() as heard:
        heard.answers = [500]
        settings = AlertSettings(webhook=heard.address, secret="x")
        runner = runner_of(world, [], alert(world, "per_page", "n > 0"), receivers=receivers_of(settings, lambda: world.clock))
        runner.store.refresh()
        assert len(list(runner.step(runner.store.pinned()))) == 2
        with pytest.raises(Undelivered):
            deliver(runner.books, runner.receivers[0])
    assert stands("busy", open_book(world.tables, "busy").document).problem is not None
    runner_of(world, [], alert(world, "per_page", "n > 0"))
    after = stands("busy", open_book(world.tables, "busy").document)
    assert (after.problem, after.unsent) == (None, {"webhook": 2})
