"""A release keeps batch views of another decoder only if both decoders found the same in the archive."""

from dataclasses import replace
from pathlib import Path

import pytest

from tandem.batch.release.apply import same_records
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.counts import Counts
from tests.batch.decoded_runs import archived, at, decoded

FOUND = Counts(events=5, quarantined={"json": 1, "empty": 1}, holes=2, others=1, duplicates=2, further=1)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """An archive of three runs, whose ends are 10, 20 and 30."""
    tables = Tables(str(tmp_path))
    archived(tables, "sales", 10, 20, 30)
    return tables


def finish(tables: Tables, decoder: str, *found: Counts) -> None:
    decoded(tables, "sales", decoder, found)


OTHER = [
    replace(FOUND, events=6, holes=1),
    replace(FOUND, duplicates=1, holes=3),
    replace(FOUND, quarantined={"json": 3}, events=4),
    replace(FOUND, others=2, holes=1),
    replace(FOUND, others=0, events=6),
]


@pytest.mark.each_run("1-*")
@pytest.mark.parametrize("other", OTHER)
@pytest.mark.parametrize("run", [0, 1, 2])
def test_records_are_the_same_if_all_runs_below_the_cut_have_equal_counts(tables: Tables, other: Counts, run: int) -> None:
    finish(tables, "before", FOUND, FOUND, FOUND)
    finish(tables, "now", *(other if number == run else FOUND for number in range(3)))
    # The first offset of a run counts, not its last: part of it lies below the cut.
    for cut in (1, 10, 11, 20, 21, 30):
        assert same_records(tables, "sales", "before", "now", at(cut)) == (cut <= 10 * run)


def test_reasons_of_rejects_may_differ(tables: Tables) -> None:
    """A record that neither decoder takes may be refused for another field."""
    finish(tables, "before", FOUND, FOUND, FOUND)
    finish(tables, "now", *[replace(FOUND, quarantined={"missing_field": 2})] * 3)
    assert same_records(tables, "sales", "before", "now", at(30))


@pytest.mark.parametrize("known", range(4))
def test_a_run_that_one_decoder_lacks_cannot_be_compared(tables: Tables, known: int) -> None:
    finish(tables, "before", FOUND, FOUND, FOUND)
    finish(tables, "now", *[FOUND] * known)
    for cut in (5, 10, 15, 25, 30):
        assert same_records(tables, "sales", "before", "now", at(cut)) == (cut <= 10 * known)
        assert same_records(tables, "sales", "now", "before", at(cut)) == (cut <= 10 * known)
        assert same_records(tables, "sales", "now", "now", at(cut)) == (cut <= 10 * known)
