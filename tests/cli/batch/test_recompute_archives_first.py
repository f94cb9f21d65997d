"""`recompute --archive` does what `archive` and then `recompute` do, in one process."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tandem.cli.__main__ import main
from tandem.infra import kafka
from tandem.ledger.delta.one_writer import write_locks
from tests.batch.shop import Shop, records, together, truth
from tests.stack import new_topic


@pytest.mark.broker
def test_every_record_of_the_log_is_published(
    broker: kafka.BrokerConnection,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held, hold = list[str](), write_locks.hold

    def noted(path: Path, *given: Any, **named: Any) -> None:
        held.append(path.stem)
        hold(path, *given, **named)

    monkeypatch.setattr(write_locks, "hold", noted)
    shop = Shop.open(broker, new_topic(broker), tmp_path)
    log = records(1, 50)
    shop.sell(log)
    for publication in (2, 3):
        held.clear()
        assert main(["recompute", "--archive", "--json", "--project", str(tmp_path)]) == 0
        found, expected = json.loads(capsys.readouterr().out), truth(log)
        assert found["publication"] == publication
        assert found["cuts"] == {"sales": found["archived"]["sales"]["end"]}
        counts = found["counts"]["sales"]
        assert (counts["events"], counts["duplicates"]) == (expected.events, expected.duplicates)
        # Whoever takes both locks takes them in this order, else two such runs would wait for each other.
        assert held[:2] == ["views", "archive"]
        more = records(2, 30, known=[value for values in log.values() for value in values])
        shop.sell(more)
        log = together(log, more)
    assert main(["recompute", "--json", "--project", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["published"], "archived" in found) == (False, False)
    assert main(["recompute", "--archive", "--project", str(tmp_path)]) == 0
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first.startswith("sales: ")
    assert "archived, up to" in first
    assert second == "publication 4 of release 1"
