"""A disk that fills up, on a file system that really does: each command says so in a sentence, and once there is room again
the answers are exact."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tandem.infra import kafka
from tests.stack import PYTHONPATH, environ, kafka_toml, new_topic, produce

DEFINITIONS = """
from datetime import datetime

from tandem import Event, Source, View, count, total, tumbling


class Reading(Event):
    at: datetime
    meter: str
    noise: str
    wh: int


readings = Source(topic="{topic}", event=Reading, event_time="at")
per_meter = View(
    source=readings,
    keys={{"meter": "meter"}},
    window=tumbling(hours=1),
    measures={{"n": count(), "wh": total("wh")}},
)
SOURCES = (readings,)
VIEWS = (per_meter,)
"""
# Run as the only root of a mount namespace, so the file system is this script's alone and goes with it.
SCRIPT = """
mount -t tmpfs -o size=1m tmpfs "$1" || exit 77
step() {{ echo "$1 exit $2" >&3; }}
tandem() {{ command=$1; shift; "{python}" -m tandem.cli "$command" --project project "$@" 3>&-; step "$command" $?; }}
grow() {{ mount -o remount,size="$1" "$state"; }}
state=$1
exec 3>>steps
tandem archive 2>archive.err
grow 400m
tandem archive
: all but enough for Spark to start, then nothing
fill() {{ head -c $(($(df --output=avail -B1 "$state" | tail -1) - $1)) /dev/zero >"$state/ballast"; }}
fill 20000
tandem recompute 2>recompute.err
rm "$state/ballast"
fill 0
tandem speed 2>speed.err
rm "$state/ballast"
tandem recompute
tandem query per_meter --json >answer.json
"""
START = datetime(2026, 11, 1, tzinfo=UTC)
EVENTS = 6000


def value(number: int) -> bytes:
    at = START + timedelta(seconds=7 * number)
    noise = "".join(f"{(number * 7919 + n * 104729) % 999983:x}" for n in range(100))
    return json.dumps({"at": at.isoformat(), "meter": f"m{number % 5}", "noise": noise, "wh": number}).encode()


def expected() -> dict[tuple[str, str], tuple[int, int]]:
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for number in range(EVENTS):
        hour = (START + timedelta(seconds=7 * number)).strftime("%Y-%m-%dT%H:00:00Z")
        n, wh = found.get((f"m{number % 5}", hour), (0, 0))
        found[f"m{number % 5}", hour] = (n + 1, wh + number)
    return found


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
def test_a_full_disk_is_reported_and_loses_nothing(broker: kafka.BrokerConnection, tmp_path: Path) -> None:
    if sys.platform != "linux" or subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs a mount namespace of its own (unshare -rm)")
    topic = new_topic(broker)
    produce(broker, topic, [value(number) for number in range(EVENTS // 2)])
    produce(broker, topic, [value(number) for number in range(EVENTS // 2, EVENTS)], partition=1)
    project, state = tmp_path / "project", tmp_path / "state"
    state.mkdir()
    project.mkdir()
    (project / "definitions.py").write_text(DEFINITIONS.format(topic=topic.name))
    (project / "tandem.toml").write_text(f'state = "{state}"\n{kafka_toml(broker)}[spark]\nmaster = "local[2]"\n')
    ran = subprocess.run(
        ["unshare", "-rm", "sh", "-c", SCRIPT.format(python=sys.executable), "sh", str(state)],
        cwd=tmp_path,
        env={**environ(), "PYTHONPATH": PYTHONPATH},
        check=False,
        timeout=500,
    )
    if ran.returncode == 77:
        pytest.skip("a file system cannot be mounted here, not even in a mount namespace of its own")

    said = {name: (tmp_path / f"{name}.err").read_text() for name in ("archive", "recompute", "speed")}
    steps = (tmp_path / "steps").read_text().split("\n")[:-1]
    assert steps == [
        "archive exit 1",
        "archive exit 0",
        "recompute exit 1",
        "speed exit 1",
        "recompute exit 0",
        "query exit 0",
    ], said
    for command, text in said.items():
        last = text.splitlines()[-1]
        # What runs long says it as an event, since this is no terminal.
        event = json.loads(last) if command == "speed" else None
        assert event["level"] == "error" if event else last.startswith("tandem: "), (command, text)
        assert "no space left on device" in last.lower(), (command, text)
        assert "Traceback" not in text
        assert "\tat " not in text
    rows = json.loads((tmp_path / "answer.json").read_text())["rows"]
    assert {(row["meter"], row["window_start"]): (row["n"], row["wh"]) for row in rows} == expected()
