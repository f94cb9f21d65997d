"""`recompute --from --to` of a UTC day rebuilds what it touches, and names the views that it rebuilds and those that stay."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tandem.cli.__main__ import main
from tandem.infra import kafka
from tests.batch.shop import DEFINITIONS, Shop, records
from tests.stack import new_topic

LOCAL = """
from tandem import calendar

local_days = View(source=sales, window=calendar("day", zone="Europe/Berlin"), measures={"n": count()})
VIEWS = (*VIEWS, local_days)
"""


@pytest.mark.slow
@pytest.mark.broker
def test_a_project_with_local_days_is_filled_in_by_utc_days(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def tandem(*arguments: str) -> str:
        assert main([*arguments, "--project", str(tmp_path)]) == 0
        return capsys.readouterr().out

    shop = Shop.open(broker, new_topic(broker), tmp_path)
    shop.define(DEFINITIONS + LOCAL)
    shop.sell(records(1, 50))
    tandem("recompute", "--archive")
    before = tandem("query", "local_days", "--layer", "batch")
    day = ("--from", "2026-03-01T00:00:00+00:00", "--to", "2026-03-02T00:00:00+00:00")

    document = json.loads(tandem("recompute", *day, "--json"))
    assert [(done["kind"], done["views"], done["windows"]) for done in document["done"]] == [
        ("windows", ["per_hour"], {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}),
        ("windows", ["local_days"], {"from": "2026-02-28T23:00:00Z", "to": "2026-03-02T23:00:00Z"}),
    ]
    assert (document["not_rebuilt"], document["published"]) == (["refunds"], True)
    words = tandem("recompute", *day).splitlines()
    assert words[1].startswith("sales: windows from 2026-03-01T00:00:00Z to 2026-03-02T00:00:00Z of per_hour, ")
    assert words[2].startswith("sales: windows from 2026-02-28T23:00:00Z to 2026-03-02T23:00:00Z of local_days, ")
    assert words[3] == "not rebuilt, because their windows depend on more than the events of a span of time: refunds"
    assert tandem("query", "local_days", "--layer", "batch").split("\n")[:3] == before.split("\n")[:3]

    for view in ("refunds", "local_days"):
        assert main(["recompute", view, *day, "--project", str(tmp_path)]) == 1
        assert f"view '{view}' has window " in capsys.readouterr().err
