"""Every answer has a header with the state of the parts; it changes no body and no tag."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import msgspec
import pytest

from tandem.infra import kafka
from tandem.infra.process import background, pulse
from tandem.infra.process.pulse import Heart
from tandem.serving.status.parts import HEADER
from tests.serving.http import sending
from tests.serving.http.sending import Log
from tests.serving.http.served import Asker, Served
from tests.serving.world import NOON, World, hit, nine_hits
from tests.stack import produce, shared_kafka

ROWS = "/views/per_page/rows"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return nine_hits(tmp_path)


@contextmanager
def beating(state: Path) -> Iterator[Heart]:
    """A speed layer that moves, as its pulse has it."""
    heart, over = Heart(state, "speed"), Event()
    heart.beat(1)
    heart.begins(1, "hits")

    def beat() -> None:
        while not over.wait(0.2):
            heart.beat(1)
            heart.looked(1, "hits")

    thread = Thread(target=beat)
    thread.start()
    try:
        yield heart
    finally:
        over.set()
        thread.join()


def died(state: Path) -> None:
    """The record of a speed layer that `up` has started, and whose process is gone."""
    (state / "run").mkdir(parents=True, exist_ok=True)
    gone = background.Process("speed", 2**22 + 1, "of another boot", str(state / "speed.log"))
    (state / "run" / "speed.json").write_bytes(msgspec.json.encode(gone))


def until(asker: Asker, told: str, path: str = ROWS) -> Any:
    """The first answer whose header has this text."""
    deadline = time.monotonic() + 300
    while told not in (answer := asker.get(path)).headers[HEADER]:
        assert time.monotonic() < deadline, answer.headers[HEADER]
    return answer


def test_every_answer_has_the_header_and_the_same_bytes(world: World) -> None:
    served = Served(world)
    state = world.state
    with served.asker() as asker, beating(state):
        before = until(asker, "speed=running")
        assert before.headers[HEADER] == "broker=not_started, speed=running"
    pulse.file(state, "speed").unlink()
    died(state)
    with served.asker() as asker:
        after = until(asker, "speed=dead")
        tag = before.headers["ETag"]
        assert (after.content, after.headers["ETag"]) == (before.content, tag)
        same = asker.get(ROWS, headers={"If-None-Match": tag})
        assert (same.status_code, same.content) == (304, b"")
        wrong = served.another(None)
        answers = [same, asker.get("/nowhere"), asker.get("/healthz"), asker.get("/"), asker.get(f"{ROWS}?nothing=1")]
        answers += [asker.runner.run(wrong.get(ROWS)), asker.get("/views/ever/row"), asker.post("/sql", json={"statement": "x"})]
        for answer in answers:
            assert "speed=dead" in answer.headers[HEADER], answer.url


def test_readiness_ends_once_a_part_is_stuck_for_stale_s(world: World) -> None:
    for bound, ready in ((3600, 200), (0, 503)):
        served = Served(world, {"stale_s": bound})
        log = world.state / "speed.log"
        died(world.state)
        log.touch()
        os.utime(log, ((NOON - timedelta(minutes=10)).timestamp(),) * 2)
        with served.asker() as asker:
            until(asker, 'speed=dead;since="2026-11-01T11:50:00Z"', "/healthz")
            answer = asker.get("/readyz")
            assert answer.status_code == ready
            if ready == 503:
                said = "answers do not advance: the speed layer has been dead since 2026-11-01T11:50:00Z; "
                assert answer.json()["detail"] == f"{said}/status shows the reason and the fix"
            (broker, speed) = asker.get("/status").json()["parts"]
            assert (broker["state"], broker["red"], speed["state"], speed["red"]) == ("not_started", False, "dead", True)
            assert speed["since"] == "2026-11-01T11:50:00Z"
            assert speed["why"] == "its process has ended"
    narrow = Served(world)
    with narrow.asker(narrow.token("narrow", views=["per_page"])) as asker:
        until(asker, "speed=dead", "/healthz")
        (_, speed) = asker.get("/status").json()["parts"]
        assert (speed["state"], speed["why"]) == ("dead", None)


@pytest.mark.broker
def test_a_server_with_only_the_tables_decides_by_the_log(broker: kafka.BrokerConnection, tmp_path: Path) -> None:
    """Nothing in the state folder tells of a speed layer: the log has a record, and nobody counts it."""
    log = Log.made(broker, "alone")
    here = sending.served(tmp_path, log, shared_kafka(broker.address))
    with here.asker() as asker:
        deadline = time.monotonic() + 300

        def later(seconds: float) -> str:
            """The header once the server has looked again, as much later by its clocks; what it knows of the log is old then."""
            assert time.monotonic() < deadline
            here.now += timedelta(seconds=seconds)
            here.seconds += 4
            while here.server.parts._looked < here.seconds:
                asker.get("/healthz")
            return str(asker.get("/healthz").headers[HEADER])

        assert later(0) == "speed=not_started"
        while asker.get("/status").json()["sources"]["hits"]["log"]["end"] is None:
            later(61)
        assert {later(61) for _ in range(3)} == {"speed=not_started"}, "the log is empty"
        produce(broker, log.topics["hits"], [hit("/a", 2)])
        while "speed=stuck;since=" not in later(61):
            pass
        assert asker.get("/readyz").status_code == 503
        (speed,) = asker.get("/status").json()["parts"]
        assert speed["why"].startswith("the log has records that are not counted")


def test_unreadable_states_are_never_reported_as_healthy(world: World) -> None:
    served = Served(world)
    run = world.state / "run"
    with served.asker() as asker, beating(world.state) as heart:
        until(asker, "speed=running")
        with heart._lock:  # a beat would create the folder again
            run.rename(run.with_name("aside"))
            run.symlink_to("run")  # whatever is opened there fails
        deadline = time.monotonic() + 300
        while not any("cannot be read" in str(line.get("event")) for line in served.lines):
            assert time.monotonic() < deadline
            asker.get("/healthz")
        served.seconds += 11
        answer = asker.get("/healthz")
        assert answer.headers[HEADER].startswith("broker=stuck;since=")
        assert "speed=stuck;since=" in answer.headers[HEADER]
        assert asker.get("/readyz").status_code == 503
        with heart._lock:
            run.unlink()
            run.with_name("aside").rename(run)
        until(asker, "speed=running")
        assert asker.get("/readyz").status_code == 200


def test_metrics_have_each_part(world: World) -> None:
    served = Served(world)
    died(world.state)
    with served.asker() as asker:
        until(asker, "speed=dead", "/healthz")
        text = asker.get("/metrics").text
    assert 'tandem_part_red{part="speed"} 1.0' in text
    assert 'tandem_part_red{part="broker"} 0.0' in text
    assert 'tandem_part_state{part="speed",state="dead"} 1.0' in text
    assert 'tandem_part_state{part="speed",state="running"} 0.0' in text
