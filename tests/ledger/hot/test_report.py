"""Status reports how the hot tail of each source stands, from what its process last reported."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from tandem.infra.process.pulse import Heart
from tandem.infra.settings import ServingSettings, Settings
from tandem.ledger.hot.report import FRESH_S, HotReport, HotReporter, HotSource, file, healthy, hot_tails
from tandem.serving.status.part_state import SPEED
from tandem.speed.hot.process import why_not

UNREPORTED = (
    "its process has not reported on this source yet: it loads identities, or cannot read the live release (see the server's log)"
)


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def reporter(tmp_path: Path) -> HotReporter:
    return HotReporter(tmp_path)


def settings(state: Path, *, hot: Literal["auto", "on", "off"] = "on") -> Settings:
    return Settings(state=str(state), serving=ServingSettings(hot=hot))


def why(state: Path, clock: Clock, release: int | None = 1) -> str | None:
    found = hot_tails(settings(state), release, ["hits"], clock=clock)["hits"]
    assert found is not None
    return found.aside


def test_a_tail_that_follows_reports_how_far_it_is_ahead(tmp_path: Path, reporter: HotReporter, clock: Clock) -> None:
    reporter.report(HotSource(1, "hits", clock(), ahead=6, compared=7, nbytes=12))
    found = hot_tails(settings(tmp_path), 1, ["hits"], clock=clock)["hits"]
    assert found is not None
    assert found.to_json() == {"aside": None, "views_aside": {}, "ahead": 6, "compared": 7, "mismatched": 0, "bytes": 12}
    assert found.problems("hits") == []
    assert healthy(tmp_path, 1, "hits", clock=clock)
    assert not healthy(tmp_path, 2, "hits", clock=clock)
    assert not healthy(tmp_path, 1, "others", clock=clock)


def test_a_tail_that_stands_aside_and_rows_that_differ_are_problems(tmp_path: Path, reporter: HotReporter, clock: Clock) -> None:
    reporter.report(HotSource(1, "hits", clock(), "the topics have changed", mismatched=2))
    found = hot_tails(settings(tmp_path), 1, ["hits"], clock=clock)["hits"]
    assert found is not None
    assert found.ahead == 0
    aside, differs = found.problems("hits")
    assert aside == "hits: the hot tail stands aside: the topics have changed"
    assert differs.startswith("hits: 2 rows of the hot tail differed")
    assert not healthy(tmp_path, 1, "hits", clock=clock)


def test_two_processes_that_follow_a_source_do_not_hide_each_other(tmp_path: Path, clock: Clock) -> None:
    of_server, of_sinks = HotReporter(tmp_path), HotReporter(tmp_path, "sinks")
    of_server.report(HotSource(1, "hits", clock(), mismatched=2))
    of_sinks.report(HotSource(1, "hits", clock(), ahead=6))
    assert healthy(tmp_path, 1, "hits", clock=clock)
    shown = hot_tails(settings(tmp_path), 1, ["hits"], clock=clock)["hits"]
    assert shown is not None
    assert shown.mismatched == 2
    clock.now += 1
    of_server.report(HotSource(1, "hits", clock(), ahead=3))
    of_sinks.report(HotSource(1, "hits", clock(), "no broker"))
    assert why(tmp_path, clock) == "no broker"
    assert not healthy(tmp_path, 1, "hits", clock=clock)


def test_a_view_that_stands_aside_is_a_problem(tmp_path: Path, reporter: HotReporter, clock: Clock) -> None:
    reporter.report(HotSource(1, "hits", clock(), views_aside={"daily": "it needs 90% of the time"}))
    found = hot_tails(settings(tmp_path), 1, ["hits"], clock=clock)["hits"]
    assert found is not None
    told = "hits: view 'daily' stands aside from the hot tail: it needs 90% of the time; its answers are those of commits"
    assert (found.aside, found.problems("hits")) == (None, [told])
    assert not healthy(tmp_path, 1, "hits", clock=clock)


def test_a_full_tail_waits_for_a_commit(tmp_path: Path, reporter: HotReporter, clock: Clock) -> None:
    reporter.report(HotSource(1, "hits", clock(), ahead=6, full=True))
    assert why(tmp_path, clock) == "it has reached serving.hot_mb and waits for the next commit"
    assert not healthy(tmp_path, 1, "hits", clock=clock)


def test_a_tail_that_is_silent_is_not_healthy_and_then_stands_aside(tmp_path: Path, reporter: HotReporter, clock: Clock) -> None:
    reporter.report(HotSource(1, "hits", clock(), ahead=6))
    clock.now += FRESH_S + 0.1
    assert not healthy(tmp_path, 1, "hits", clock=clock)
    assert why(tmp_path, clock) is None
    clock.now += 10
    assert why(tmp_path, clock) == "its process has not reported for 12 s"
    clock.now = 1.0  # the machine was started again
    assert not healthy(tmp_path, 1, "hits", clock=clock)


def test_without_a_process_only_the_setting_says_that_it_is_missing(tmp_path: Path, clock: Clock) -> None:
    assert hot_tails(settings(tmp_path, hot="off"), 1, ["hits"], clock=clock) == {"hits": None}
    assert "no process of hot tails runs" in str(why(tmp_path, clock))
    path = file(tmp_path)
    path.parent.mkdir()
    path.write_bytes(msgspec.json.encode(HotReport(os.getpid(), "another process")))
    assert "no process of hot tails runs" in str(why(tmp_path, clock))
    HotReporter(tmp_path).start()
    assert why(tmp_path, clock) == UNREPORTED
    assert why(tmp_path, clock, None) == UNREPORTED, "nothing is published"
    path.write_bytes(b"{")
    assert not healthy(tmp_path, 1, "hits", clock=clock)


def test_a_change_of_health_is_reported_at_once_and_the_rest_twice_a_second(
    tmp_path: Path, reporter: HotReporter, clock: Clock
) -> None:
    def ahead() -> int:
        found = hot_tails(settings(tmp_path), 1, ["hits"], clock=clock)["hits"]
        assert found is not None
        return found.ahead

    reporter.report(HotSource(1, "hits", clock()))
    reporter.report(HotSource(1, "hits", clock(), ahead=6))
    assert ahead() == 0
    clock.now += 0.5
    reporter.report(HotSource(1, "hits", clock(), ahead=6))
    assert ahead() == 6
    reporter.report(HotSource(1, "hits", clock(), "no broker"))
    assert why(tmp_path, clock) == "no broker"
    reporter.report(HotSource(2, "others", clock()))
    assert why(tmp_path, clock) == UNREPORTED, "a source of an earlier release is not reported any more"


def test_by_default_a_server_has_hot_tails_where_the_speed_layer_has_run(tmp_path: Path) -> None:
    auto = settings(tmp_path, hot="auto")
    assert why_not(auto) == "the speed layer has not run on this machine from this state folder"
    Heart(tmp_path, SPEED).beat()
    assert why_not(auto) is None
    assert why_not(settings(tmp_path, hot="off")) == 'serving.hot is "off"'
    assert why_not(settings(tmp_path, hot="on")) is None
