"""`verify` finds that both paths and what is published agree, and where they do not; it leaves nothing behind."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from batch import archive, recompute
from cli.__main__ import main
from infra import kafka
from ledger import publications
from tests.batch.shop import Shop, records, together, truth
from tests.stack import new_topic


def test_it_asks_for_views_or_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tandem.toml").touch()
    for arguments in ([], ["sales", "--all"]):
        assert main(["verify", *arguments, "--project", str(tmp_path)]) == 1
        assert "name the views to verify, or --all" in capsys.readouterr().err
    assert main(["verify", "--all", "--project", str(tmp_path)]) == 1
    assert "nothing is published yet" in capsys.readouterr().err


@pytest.mark.broker
def test_both_paths_and_what_is_published_agree(
    broker: kafka.Connection, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = Shop.open(broker, new_topic(broker), tmp_path)
    with (tmp_path / "tandem.toml").open("a") as settings:
        settings.write("[speed]\nmax_events = 60\n")
    one = records(1, 100)
    shop.sell(one)
    archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    two = records(2, 60, known=[value for values in one.values() for value in values])
    shop.sell(two)
    archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    live = publications.latest(shop.tables)
    assert live is not None
    capsys.readouterr()

    assert main(["verify", "--all", "--json", "--project", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    sales, expected = found["sources"]["sales"], truth(together(one, two))
    assert found["agree"]
    assert sales["batches"] == 3
    for counts in sales["counts"].values():
        assert (counts["events"], counts["duplicates"]) == (expected.events, expected.duplicates)
        assert sum(counts["quarantined"].values()) == expected.quarantined
    between = {tuple(each["between"]) for each in sales["compared"]}
    assert between == {("speed", "batch"), ("published", "batch"), ("published", "speed")}
    assert {each["view"] for each in sales["compared"]} == {"per_hour", "refunds"}
    assert {each["rows"] for each in sales["compared"] if each["view"] == "per_hour"} == {len(expected.per_hour)}
    assert publications.latest(shop.tables) == live
    assert list((shop.settings.folder / "scratch").iterdir()) == []

    table = DeltaTable(shop.tables.view("per_hour", live.views["per_hour"].fingerprint))
    table.update(updates={"cents": "cents + 1"}, predicate="shop = 'shop 1'")
    assert main(["verify", "per_hour", "--json", "--project", str(tmp_path)]) == 1
    found = json.loads(capsys.readouterr().out)
    wrong = {(each["measure"], tuple(each["between"])) for each in found["sources"]["sales"]["compared"] if each["differ"]}
    assert wrong == {("cents", ("published", "batch")), ("cents", ("published", "speed"))}
    assert list((shop.settings.folder / "scratch").iterdir()) == []
