"""Labels of the speed layer stay when a batch covers their range, and the watermark never goes back."""

from dataclasses import replace
from datetime import timedelta

from tandem.ledger.cut_decision import bridge
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.label_counts import Labels, labels_below
from tandem.ledger.publish.publications import Publication
from tandem.views.source.watermark import Newest
from tests.ledger.tiny import AT, SOURCE, VIEW, at, claim, commit_each, first, fold

NAME = "numbers_total"


def labelled(start: Position, end: Position, epoch: int, late: int, watermark: int | None = None):
    counts, after = Counts(events=4, late=late), {VIEW: 10 * late}
    return replace(fold(start, end, epoch), counts=counts, watermark=watermark, after_final=after)


def below(tables: Tables, parent: Publication | None, cut: Position, *, time: int = 0, view: str = VIEW) -> Labels:
    """The labels below a cut, where the newest event has this time."""
    return labels_below(
        tables,
        parent,
        SOURCE,
        cut,
        views={NAME: view},
        maxima={("T", 0): Newest(time, 0)},
        idle=timedelta(0),
    )


def test_labels_of_exactly_the_commits_below_the_cut_are_added(tables: Tables) -> None:
    parent, writer = first(tables), claim(tables)
    writer.append(labelled(at(), at(2, 2), writer.epoch, 1))
    writer.append(labelled(at(2, 2), at(4, 4), writer.epoch, 2))
    writer.append(labelled(at(4, 4), at(6, 6), writer.epoch, 4))

    def counted(parent: Publication | None, cut: Position, view: str = VIEW) -> tuple[int, int]:
        found = below(tables, parent, cut, view=view)
        return found.late, found.after_final.get(NAME, 0)

    assert counted(None, at(4, 4)) == (0, 0)
    assert counted(parent, at(4, 4)) == (3, 30)
    grown = replace(parent, cuts={SOURCE: at(2, 2)}, counts={SOURCE: Counts(late=10)}, after_final={NAME: 5})
    assert counted(grown, at(2, 2)) == (10, 5)
    assert counted(grown, at(6, 6)) == (16, 65)
    assert counted(grown, at(6, 6), view="another") == (16, 0)
    assert counted(replace(parent, cuts={}), at(6, 6)) == (0, 0)


def test_a_speed_layer_that_lags_adds_no_labels(tables: Tables) -> None:
    parent = first(tables)
    commit_each(claim(tables), at(2, 2))
    assert below(tables, parent, at(9, 9)).late == 0


def test_the_watermark_is_that_of_the_commits_up_to_the_cut(tables: Tables) -> None:
    """Whatever the batch found: answers have shown what the commits said."""
    parent, writer = first(tables), claim(tables)
    writer.append(labelled(at(), at(2, 2), writer.epoch, 0, 70))
    writer.append(labelled(at(2, 2), at(4, 4), writer.epoch, 0, 90))
    assert below(tables, parent, at(2, 2), time=80).watermark == 70
    assert below(tables, parent, at(4, 4), time=80).watermark == 90


def test_without_commits_up_to_the_cut_the_maxima_give_the_watermark(tables: Tables) -> None:
    parent, writer = first(tables), claim(tables)
    assert below(tables, None, at(4, 4), time=80).watermark == 80
    writer.append(labelled(at(), at(2, 2), writer.epoch, 0, 70))
    assert below(tables, parent, at(4, 4), time=80).watermark == 80
    bridge(tables, 1, SOURCE, to=at(4, 4), by="test", at=AT)
    assert below(tables, parent, at(4, 4), time=80).watermark == 80
    assert below(tables, parent, at(4, 4), time=60).watermark == 70


def test_without_a_known_watermark_the_maxima_give_it(tables: Tables) -> None:
    """As in a release that began without, under another bound on clocks, recomputed at the cut where it began."""
    parent = replace(first(tables), cuts={SOURCE: at(4, 4)})
    assert below(tables, parent, at(4, 4), time=80).watermark == 80
    assert below(tables, replace(parent, watermarks={SOURCE: 70}), at(4, 4), time=80).watermark == 70


def test_the_watermark_is_never_less_than_the_parents(tables: Tables) -> None:
    parent = replace(first(tables), watermarks={SOURCE: 100})
    assert below(tables, parent, at(4, 4), time=80).watermark == 100
