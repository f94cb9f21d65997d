"""Whoever asks for answers is reported, so that the process of hot tails folds faster, at most twice a second."""

from pathlib import Path

from tandem.ledger.hot.feed import REPORT_S, HotFeed
from tandem.serving.connection import Connection
from tandem.serving.memory.store import Store
from tests.serving.memory.test_answers_of_hot_commits import Clock
from tests.serving.world import nine_hits


def test_each_question_reports_that_somebody_asks_but_not_too_often(tmp_path: Path) -> None:
    world, clock, reports = nine_hits(tmp_path), Clock(), list[float]()
    feed = HotFeed(clock, wanted=lambda: reports.append(clock.now))
    connection = Connection(Store(world.tables, 1, hot=feed))
    connection.refresh()
    assert reports == []
    for step in (0.0, REPORT_S / 2, REPORT_S / 2, REPORT_S):
        clock.now += step
        connection.view("per_page").rows()
    assert [round(at - reports[0], 3) for at in reports] == [0.0, REPORT_S, 2 * REPORT_S]
