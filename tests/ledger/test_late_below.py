"""Late events are counted once by the speed layer and stay counted when a batch takes their range over."""

from dataclasses import replace

from ledger.counts import Counts
from ledger.late import late_below
from ledger.positions import Position
from ledger.tables import Tables
from tests.ledger.tiny import SOURCE, at, claim, commit_each, first, fold


def with_late(start: Position, end: Position, epoch: int, late: int):  # type: ignore[no-untyped-def]
    return replace(fold(start, end, epoch), counts=Counts(events=4, late=late))


def test_what_lies_below_the_cut_is_carried_and_nothing_else(tables: Tables) -> None:
    parent, writer = first(tables), claim(tables)
    writer.append(with_late(at(), at(2, 2), writer.epoch, 1))
    writer.append(with_late(at(2, 2), at(4, 4), writer.epoch, 2))
    writer.append(with_late(at(4, 4), at(6, 6), writer.epoch, 4))
    assert late_below(tables, None, SOURCE, at(4, 4)) == 0
    assert late_below(tables, parent, SOURCE, at(4, 4)) == 3
    counted = replace(parent, cuts={SOURCE: at(2, 2)}, counts={SOURCE: Counts(late=10)})
    assert late_below(tables, counted, SOURCE, at(2, 2)) == 10
    assert late_below(tables, counted, SOURCE, at(6, 6)) == 16
    assert late_below(tables, replace(parent, cuts={}), SOURCE, at(6, 6)) == 0


def test_a_speed_layer_that_lags_adds_nothing_of_what_it_has_not_read(tables: Tables) -> None:
    parent = first(tables)
    commit_each(claim(tables), at(2, 2))
    assert late_below(tables, parent, SOURCE, at(9, 9)) == 0
