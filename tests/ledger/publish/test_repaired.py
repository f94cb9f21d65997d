"""The repaired duplicates are the difference between the counts of the tail and of the batch over one range."""

from dataclasses import replace

from tandem.ledger.cut_decision import bridge
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.label_counts import repaired
from tandem.ledger.publish.publications import Publication
from tandem.ledger.realtime_writer import Writer
from tests.ledger.tiny import AT, SOURCE, at, claim, first, fold


def commit(writer: Writer, end: Position, counts: Counts) -> None:
    writer.append(replace(fold(writer.end, end, writer.epoch), counts=counts))


def found(tables: Tables, parent: Publication | None, cut: Position, below: Counts, release: int = 1) -> int | None:
    return repaired(tables, parent, release, SOURCE, cut=cut, below=below)


def test_duplicates_that_only_the_speed_layer_counted_are_repaired(tables: Tables) -> None:
    parent, writer = first(tables), claim(tables)
    commit(writer, at(3, 3), Counts(events=5, duplicates=1))
    commit(writer, at(6, 6), Counts(events=5, quarantined={"json": 1}))
    commit(writer, at(9, 9), Counts(events=6))
    below = Counts(events=8, quarantined={"json": 1}, duplicates=3)
    assert found(tables, parent, at(6, 6), below) == 2
    assert found(tables, replace(parent, cuts={SOURCE: at(6, 6)}, counts={SOURCE: below}), at(6, 6), below) == 0
    later = replace(parent, cuts={SOURCE: at(3, 3)}, counts={SOURCE: Counts(events=4, duplicates=2)})
    assert found(tables, later, at(6, 6), below) == 1


def test_the_number_is_unknown_if_the_layers_processed_different_records(tables: Tables) -> None:
    parent, writer = first(tables), claim(tables)
    commit(writer, at(3, 3), Counts(events=6))
    assert found(tables, None, at(3, 3), Counts(events=6)) is None
    assert found(tables, parent, at(2, 3), Counts(events=5)) is None
    assert found(tables, parent, at(3, 3), Counts(events=5)) is None
    assert found(tables, replace(parent, release=2), at(3, 3), Counts(events=6)) is None
    bridge(tables, 1, SOURCE, to=at(5, 5), by="test", at=AT)
    assert found(tables, parent, at(5, 5), Counts(events=10)) is None
    assert found(tables, parent, at(5, 5), Counts(events=6)) is None, "also where the archive lacks as many as were bridged"
