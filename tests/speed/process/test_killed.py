"""Killing the speed layer's processes at the worst moments: nothing is lost, nothing is counted twice."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tandem.infra import kafka
from tandem.infra.settings import Settings
from tests.speed.sales import answered, folded, log_end, per_minute, project_files, settings_for, some, total, wait_for
from tests.stack import PYTHONPATH, environ, kafka_toml, new_topic, produce

pytestmark = pytest.mark.broker


@contextmanager
def layer(project: Path, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """`tandem speed` as a process of its own, once it is ready; whatever is left of it afterwards is killed."""
    ready = project / ".tandem" / "run" / "speed.ready"
    ready.unlink(missing_ok=True)
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "tandem.cli", "speed", "--project", str(project)],
            env={**environ(), "PYTHONPATH": PYTHONPATH},
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    try:
        wait_for(lambda: ready.exists() or process.poll() is not None, seconds=300)
        assert process.poll() is None, log.read_text()
        yield process
    finally:
        kill(family(process))
        process.kill()
        process.wait()


def family(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """The processes that a layer has started: its JVM and Python workers."""
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def java_of(process: "subprocess.Popen[bytes]") -> psutil.Process:
    return next(child for child in family(process) if child.name() == "java")


def events(log: Path, start: int) -> list[dict[str, Any]]:
    """What a layer that is not on a terminal has said since then, but for how it goes."""
    said = [json.loads(line) for line in log.read_text()[start:].splitlines()]
    return [event for event in said if event["level"] != "info"]


def planned(settings: Settings) -> set[Path]:
    """The micro-batches that Spark has planned, committed or not."""
    return set((settings.folder / "speed").glob("*/*/*/offsets/[0-9]*"))


def kill(processes: Sequence[psutil.Process]) -> None:
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            each.kill()


def gone(processes: Sequence[psutil.Process]) -> bool:
    return not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes)


@pytest.mark.slow
def test_a_layer_killed_before_and_after_its_commits_loses_nothing(broker: kafka.BrokerConnection, tmp_path: Path) -> None:
    """Kill -9 of everything before a commit, of the Python driver alone after one, of the JVM alone; then a clean stop."""
    topic, log = new_topic(broker), tmp_path / "log"
    project = tmp_path / "project"
    settings = settings_for(broker, project / ".tandem")
    project.mkdir()
    for name, content in project_files(topic.name).items():
        (project / name).write_bytes(content)
    (project / "tandem.toml").write_text(f'{kafka_toml(broker)}[spark]\nmaster = "local[2]"\n')

    produce(broker, topic, some(range(20)))
    with layer(project, log) as process:
        wait_for(lambda: folded(settings) == log_end(broker, topic))
        children, before = family(process), planned(settings)
        produce(broker, topic, some(range(20, 40)))
        wait_for(lambda: planned(settings) > before)
        process.kill()
        kill(children)
        wait_for(lambda: gone(children), seconds=300)
        early = folded(settings) != log_end(broker, topic)

    with layer(project, log) as process:
        wait_for(lambda: folded(settings) == log_end(broker, topic))
        children = family(process)
        produce(broker, topic, some(range(40, 70)), partition=1)
        wait_for(lambda: folded(settings) == log_end(broker, topic))
        process.kill()
        produce(broker, topic, some(range(60, 80)))
        # The JVM outlives its driver by a moment; what it still does must not count.
        wait_for(lambda: gone(children), seconds=300)

    with layer(project, log) as process:
        wait_for(lambda: folded(settings) == log_end(broker, topic))
        said = len(log.read_text())
        java_of(process).kill()
        assert process.wait(60) == 1
        assert [(event["level"], event["event"]) for event in events(log, said)] == [
            (
                "error",
                (
                    "the speed layer has ended; its commits stay, and the next run continues from there: "
                    "Spark's Java process has ended: it was killed, or has crashed"
                ),
            )
        ]

    with layer(project, log) as process:
        wait_for(lambda: folded(settings) == log_end(broker, topic))
        children, said = family(process), len(log.read_text())
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert events(log, said) == []
        wait_for(lambda: gone(children), seconds=300)

    assert early, "the first layer had committed before it was killed"
    assert answered(settings) == per_minute(range(80))
    assert total(settings, "events") == 80
    assert not (project / ".tandem" / "run" / "speed.ready").exists()
