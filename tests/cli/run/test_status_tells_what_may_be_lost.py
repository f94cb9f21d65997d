"""`status` against a real broker: what the topic's retention may delete before it is archived, and what it has deleted."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.infra import kafka
from tandem.ledger.delta.addresses import Tables
from tests.batch.filed import Filed, row
from tests.stack import create_as, delete_below, kafka_toml, new_topic, produce

pytestmark = pytest.mark.broker

DEFINITIONS = """
from datetime import datetime
from tandem import Event, Source

class Sale(Event):
    at: datetime

kept = Source(topic="KEPT", event=Sale, event_time="at")
timed = Source(topic=("TIMED", "KEPT"), event=Sale, event_time="at")
sized = Source(topic="SIZED", event=Sale, event_time="at")
SOURCES = (kept, timed, sized)
VIEWS = ()
"""
HOUR = timedelta(hours=1)


def made(broker: kafka.BrokerConnection, name: str, **configuration: str) -> kafka.Topic:
    named = {key.replace("_", "."): value for key, value in configuration.items()}
    return create_as(broker, name, named)


@pytest.mark.slow
def test_until_loss_is_about_unarchived_records(
    broker: kafka.BrokerConnection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, now = new_topic(broker), datetime.now(UTC)
    timed = made(broker, f"{kept.name}-timed", retention_ms=str(40 * 3_600_000))
    sized = made(broker, f"{kept.name}-sized", retention_ms="-1", retention_bytes="10000")
    text = DEFINITIONS.replace("TIMED", timed.name).replace("SIZED", sized.name).replace("KEPT", kept.name)
    (tmp_path / "definitions.py").write_text(text)
    (tmp_path / "tandem.toml").write_text(f'state = "state"\n{kafka_toml(broker)}')

    def told(name: str) -> Any:
        assert main(["status", "--json", "--project", str(tmp_path)]) == 0
        return json.loads(capsys.readouterr().out)["sources"][name]["until_loss"]

    assert told("kept") == told("timed") == told("sized") == {"seconds": None, "offsets": None, "lost": 0, "warning": None}
    produce(broker, kept, [b"x"], at=now - 900 * HOUR)
    produce(broker, timed, [b"x"], at=now - 25 * HOUR)
    produce(broker, timed, [b"x"], at=now - 3 * HOUR)
    produce(broker, timed, [b"x"], partition=1, at=now - 2 * HOUR)
    assert told("kept")["seconds"] is None
    found = told("timed")
    assert found["seconds"] == pytest.approx(15 * 3600, abs=60)
    assert found["warning"].startswith("in 15.0 hours the log may lose records that are not archived")
    # Only the first record is archived: the others have time.
    archived = Filed(Tables(str(tmp_path / "state" / "tables")), "timed")
    archived.name(timed.name, timed.id)
    archived.file([row(timed.id, 0, 0)], {(timed.id, 0): 1})
    found = told("timed")
    assert found["seconds"] == pytest.approx(37 * 3600, abs=60)
    assert found["warning"] is None
    # 100 records of 100 bytes each, as a batch of one, fill a partition.
    produce(broker, sized, [b"x" * 30] * 40, partition=1)
    assert told("sized") == {"seconds": None, "offsets": 60, "lost": 0, "warning": None}
    produce(broker, sized, [b"x" * 30] * 20, partition=1)
    assert told("sized")["warning"].startswith("in 40 offsets the log may lose")
    produce(broker, timed, [b"x"] * 3)
    delete_below(broker, timed, {0: 4})
    assert told("timed")["lost"] == 3
    assert main(["status", "--project", str(tmp_path)]) == 0
    assert (
        "timed: 3 offsets were lost before they were archived; `tandem archive` records them as a gap" in capsys.readouterr().out
    )
