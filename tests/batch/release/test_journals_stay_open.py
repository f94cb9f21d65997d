"""A run opens a journal of what is published once, and reads on from there: each opening reads the journal's whole log."""

from collections import Counter

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tests.batch.release.test_apply import CHANGED, applied, promoted
from tests.batch.shop import Shop, records


def test_a_promotion_opens_two_journals_and_an_apply_opens_few_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.sell(records(61, 60))
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    opened, really = Counter[str](), delta_tables.open_table

    def counting(tables: Tables, address: str) -> object:
        opened[address.removeprefix(f"{tables.control()}/").split("/")[0]] += 1
        return really(tables, address)

    monkeypatch.setattr(delta_tables, "open_table", counting)
    applied(shop, CHANGED)
    assert opened["releases"] == 1
    assert opened["publications"] <= 3
    opened.clear()
    promoted(shop)
    assert {name: times for name, times in opened.items() if name in ("publications", "standing", "releases")} == {
        "publications": 1,
        "standing": 1,
    }
