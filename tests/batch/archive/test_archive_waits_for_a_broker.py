"""A broker that freezes while `archive` polls it or copies from it costs time and no record."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from threading import Timer

import pytest

from tandem.batch.archive import write_archive
from tests.batch.shop import Shop, records, rows_of
from tests.frozen import frozen, own_broker
from tests.stack import new_topic

pytestmark = [pytest.mark.broker, pytest.mark.slow]


MOST_S = 120


@pytest.mark.usefixtures("spark")
def test_the_archive_polls_and_copies_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frozen for longer than other commands wait for an answer, then until the tasks have given up."""
    with own_broker(tmp_path / "broker") as (connection, pid):
        monkeypatch.setattr(write_archive, "_BROKER_WAIT_S", connection.address.timeout_s + 15)
        shop, said, timers = Shop.open(connection, new_topic(connection), tmp_path), list[str](), list[Timer]()
        log = records(5, 200)
        shop.sell(log)

        def say(line: str) -> None:
            said.append(line)
            if "copying" in line and len(timers) == 1:
                timers.append(frozen(pid, MOST_S))
            if "trying again in" in line:
                timers[-1].cancel()
                os.kill(pid, signal.SIGCONT)

        timers.append(frozen(pid, connection.address.timeout_s + 5))
        write_archive.run(replace(shop.run("archive"), say=say), shop.project)
        for timer in timers:
            timer.join()
        assert len(timers) == 2
        assert len([line for line in said if "trying again in" in line]) == 1, said
        held = rows_of(shop, shop.tables.archive("sales")).to_pylist()
        found = {number: [row["value"] for row in held if row["partition"] == number] for number in log}
        assert found == {number: list(values) for number, values in log.items()}
