"""A stopped and a killed speed layer are reported everywhere within ten seconds; answers stay the same."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tandem.cli.__main__ import main
from tandem.cli.command.call import UNHEALTHY
from tandem.infra import kafka
from tandem.infra.folders import ROOT
from tandem.ledger.log.positions import Position
from tests.speed.process.test_killed import layer
from tests.speed.sales import folded, log_end, project_files, settings_for, some, wait_for
from tests.stack import environ, kafka_toml, new_topic, produce

pytestmark = pytest.mark.broker
SEEN_S: Final = 10


@pytest.fixture
def topic(broker: kafka.BrokerConnection) -> kafka.Topic:
    return new_topic(broker)


@pytest.fixture
def project(broker: kafka.BrokerConnection, topic: kafka.Topic, tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    for name, content in project_files(topic.name).items():
        (folder / name).write_bytes(content)
    (folder / "tandem.toml").write_text(f'{kafka_toml(broker)}[spark]\nmaster = "local[2]"\n')
    return folder


@pytest.fixture
def client(project: Path) -> Iterator[httpx.Client]:
    """A client of `tandem serve`, as a process of its own."""
    command = [sys.executable, "-m", "tandem.cli", "serve", "--project", str(project), "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=ROOT, env=environ(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = json.loads(process.stdout.readline())["address"]
            secret = (project / ".tandem" / "access" / "first.token").read_text().strip()
            with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {secret}"}, timeout=30) as found:
                yield found
        finally:
            process.terminate()


def within(seconds: float, condition: Callable[[], bool]) -> float:
    """Wait until the condition holds; after how many seconds it did."""
    began = time.monotonic()
    wait_for(condition, seconds=seconds)
    return time.monotonic() - began


@pytest.mark.slow
def test_a_stopped_and_a_killed_speed_layer_are_reported_within_ten_seconds(
    broker: kafka.BrokerConnection,
    topic: kafka.Topic,
    *,
    project: Path,
    client: httpx.Client,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def tandem(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*arguments, "--project", str(project)])
        return code, *capsys.readouterr()

    def part() -> tuple[int, dict[str, Any]]:
        code, out, _ = tandem("status", "--json")
        return code, next(one for one in json.loads(out)["parts"] if one["part"] == "speed")

    def feed(numbers: Sequence[int], *options: str) -> tuple[int, dict[str, Any], str]:
        lines = tmp_path / "lines"
        lines.write_bytes(b"\n".join(some(numbers)))
        code, out, err = tandem("feed", str(lines), "--source", "sales", "--json", *options)
        return code, json.loads(out), err

    def figure(name: str, **labels: str) -> float:
        families = text_string_to_metric_families(client.get("/metrics").text)
        (found,) = (one.value for of in families for one in of.samples if (one.name, one.labels) == (name, labels))
        return found

    def is_seen(state: str) -> None:
        began = time.monotonic()
        within(SEEN_S, lambda: part()[0] == UNHEALTHY)
        within(SEEN_S - (time.monotonic() - began), lambda: client.get("/readyz").status_code == 503)
        problem = client.get("/readyz").json()
        assert problem["detail"].startswith(f"answers do not advance: the speed layer has been {state} since ")
        told = part()[1]
        assert (told["state"], told["red"]) == (state, True)
        assert told["advice"]
        since = datetime.fromisoformat(told["since"])
        assert abs(datetime.now(since.tzinfo).timestamp() - since.timestamp()) < 60

        after = client.get(rows)
        assert (after.content, after.headers["ETag"]) == (before.content, before.headers["ETag"])
        assert f"speed={state};since=" in after.headers["Tandem-Parts"]
        same = client.get(rows, headers={"If-None-Match": before.headers["ETag"]})
        assert (same.status_code, same.content) == (304, b"")
        assert f"speed={state};since=" in same.headers["Tandem-Parts"]
        assert f"speed={state};since=" in client.get("/nowhere").headers["Tandem-Parts"]
        assert figure("tandem_part_red", part="speed") == 1
        assert figure("tandem_part_state", part="speed", state=state) == 1
        assert figure("tandem_part_age_seconds", part="speed") > 1
        assert [one["red"] for one in client.get("/status").json()["parts"] if one["part"] == "speed"] == [True]
        code, out, err = tandem("query", "per_minute")
        assert code == 0
        assert f"the speed layer has been {state} since " in err
        assert "5 records wait" in err
        assert state not in out
        code, out, err = tandem("sql", "SELECT count(*) AS n FROM per_minute")
        assert code == 0
        assert f"the speed layer has been {state} since " in err
        assert state not in out

    settings = settings_for(broker, project / ".tandem")
    produce(broker, topic, some(range(20)))
    with layer(project, tmp_path / "log") as process:
        wait_for(lambda: folded(settings) == log_end(broker, topic))
        wait_for(lambda: part()[1]["state"] == "running")
        wait_for(lambda: client.get("/readyz").status_code == 200)
        rows = "/views/per_minute/rows"
        wait_for(lambda: client.get(rows).json()["total"] > 0)
        before = client.get(rows)
        assert before.headers["Tandem-Parts"] == "speed=running"
        assert figure("tandem_part_red", part="speed") == 0
        assert tandem("query", "per_minute")[2] == ""

        process.send_signal(signal.SIGSTOP)
        code, out, err = feed(range(20, 25), "--wait", "--within", "0.5")
        assert (code, out["sent"], out["uncounted"]) == (UNHEALTHY, 5, 5)
        assert err.startswith("tandem: 5 of 5 records are not counted after 0.5 s; the speed layer has been stuck since ")
        is_seen("stuck")
        code, _, err = tandem("query", "per_shop", "--wait", "--within", "0.5")
        assert code == UNHEALTHY
        assert err.startswith("tandem: 5 records are not counted after 0.5 s; the speed layer has been stuck since ")
        process.send_signal(signal.SIGCONT)
        code, answer, _ = tandem("query", "per_shop", "--wait", "--json")
        assert (code, sum(row["n"] for row in json.loads(answer)["rows"])) == (0, 25)
        within(60, lambda: client.get("/readyz").status_code == 200)
        within(60, lambda: part()[0] == 0)

        # What was fed is counted when the command returns, whatever others send meanwhile.
        produce(broker, topic, some(range(100, 110)), partition=1)
        code, out, _ = feed(range(25, 40), "--wait")
        assert (code, out["sent"], out["uncounted"]) == (0, 15, 0)
        assert Position.from_json(out["positions"]).at_or_below(folded(settings))
        wait_for(lambda: folded(settings) == log_end(broker, topic))
        wait_for(lambda: client.get(rows).headers["ETag"] != before.headers["ETag"])

        before = client.get(rows)
        process.kill()
        produce(broker, topic, some(range(40, 45)))
        is_seen("dead")
