"""Before a run takes its cut it waits for a speed layer that advances, and only for such a one."""

from pathlib import Path

import pytest

from tandem.batch.recompute.wait_for_cut import take_cut
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.realtime.commit_files import spans_of
from tandem.ledger.realtime_writer import Writer
from tests import one_process
from tests.ledger.tiny import SOURCE, at, claim, commit_each, first


class Waits:
    """In place of sleeping: the layer commits one offset of partition 0 in each wait, as long as it has some left."""

    def __init__(self, writer: Writer | None, left: int) -> None:
        self.writer, self.left, self.number = writer, left, 0

    def __call__(self, seconds: float) -> None:
        assert seconds > 0
        self.number += 1
        if self.writer is not None and self.left:
            self.left -= 1
            commit_each(self.writer, at(self.writer.end.get(("T", 0), 0) + 1, 5))


def cut(state: Path, end: Position, waits: Waits) -> tuple[Position, bool]:
    """The cut, and whether it was reached over a bridge."""
    run = one_process.run(Settings(state=str(state)), "recompute")
    found = take_cut(run, 1, SOURCE, end, sleep=waits)
    return found, any(span.kind == "bridge" for span in spans_of(run.tables, 1, SOURCE))


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    tables = Tables(str(tmp_path / "tables"))
    first(tables)
    return tables


def test_a_run_waits_for_a_speed_layer_that_advances(tables: Tables, tmp_path: Path) -> None:
    writer = claim(tables)
    commit_each(writer, at(1, 5))
    waits = Waits(writer, 9)
    assert cut(tmp_path, at(4, 5), waits) == (at(4, 5), False)
    assert waits.number == 3
    assert cut(tmp_path, at(4, 5), waits) == (at(4, 5), False)
    assert cut(tmp_path, at(3, 5), waits) == (at(3, 5), False)
    assert waits.number == 3, "a recompute does not wait for a source that has reached the cut"


def test_a_speed_layer_that_does_not_advance_is_bridged_after_three_seconds(tables: Tables, tmp_path: Path) -> None:
    writer = claim(tables)
    commit_each(writer, at(1, 5))
    waits = Waits(writer, 4)
    assert cut(tmp_path, at(9, 5), waits) == (at(9, 5), True)
    assert waits.number in (34, 35), "its pauses count from its last commit"


def test_a_speed_layer_that_is_too_slow_is_bridged_after_half_a_minute(
    tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem.batch.recompute.wait_for_cut._PATIENCE_S", 1.0)
    writer = claim(tables)
    commit_each(writer, at(1, 5))
    waits = Waits(writer, 400)
    assert cut(tmp_path, at(90, 5), waits) == (at(90, 5), True)
    assert waits.number in (10, 11)


def test_a_run_does_not_wait_if_no_speed_layer_ever_claimed_the_table(tables: Tables, tmp_path: Path) -> None:
    waits = Waits(None, 0)
    assert cut(tmp_path, at(3, 1), waits) == (at(3, 1), True)
    assert cut(tmp_path, at(4, 2), waits) == (at(4, 2), True)
    assert (waits.number, cut(tmp_path, LOG_START, waits)[0]) == (0, LOG_START)
