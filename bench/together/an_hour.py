"""The memory of an hour of event time: sent ten minutes at a time, each as fast as it is read, with the peak in each."""

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from tandem.bench.peers.contestant import Setting
from tandem.bench.peers.rounds import Arena, empty
from tandem.bench.peers.running import Quiet, started
from tandem.bench.process_tree import Sampler
from tandem.bench.together.answering import LIMIT_S, POLL_S, recompute
from tandem.bench.together.questions import TogetherQuestion
from tandem.bench.together.streams import Streams, generate, values
from tandem.bench.together.systems import TANDEM, System
from tandem.infra import kafka
from tandem.views.errors import TandemError

MINUTES: Final = 10
_PART_MS: Final = MINUTES * 60_000
_PARTS: Final = 60 // MINUTES


@dataclass(frozen=True)
class HourOfMemory:
    """The peak in bytes of a system's processes in each ten minutes of event time; `batch` is that of Tandem's recomputes."""

    system: str
    question: str
    peaks: tuple[int, ...] = ()
    batch: tuple[int, ...] = ()
    problem: str = ""


def measure_hour(arena: Arena, shape: Streams, question: TogetherQuestion, system: System) -> HourOfMemory:
    """Memory of a system, on topics of its own. Tandem archives and recomputes after each part, as its schedule does."""
    question = replace(question, suffix=f"_hour_{system.name}")
    setting = arena.setting(f"hour-{system.name}", question.topics[0], fresh=False, number=0)
    streams = generate(shape)
    streams = {topic: streams[topic] for topic in question.topics}
    for topic in question.topics:
        empty(arena.connection, topic + question.suffix)
    setting.folder.mkdir(parents=True)
    run, began = HourOfMemory(system.name, question.name), int(shape.base.timestamp() * 1000)
    try:
        with started(system.command(setting, question), setting.folder, "log") as process:
            quiet = Quiet(lambda: system.version(setting), time.time())
            for number in range(_PARTS):
                with Sampler(lambda: [process.pid]) as used:
                    _send(arena, question, {topic: ten_minutes(events, began, number) for topic, events in streams.items()})
                    _until(lambda: quiet.reached(time.time()), process, setting)
                batch = (recompute(setting, question),) if system is TANDEM else ()
                run = replace(run, peaks=(*run.peaks, used.peak_bytes), batch=(*run.batch, *batch))
    except TandemError as error:
        return replace(run, problem=str(error))
    return run


def ten_minutes(events: pa.Table, began: int, number: int) -> pa.Table:
    """Events in the order of the log while the newest is in these ten minutes; the last part has all that are later."""
    newest = np.maximum.accumulate(events["at"].to_numpy())
    return events.filter(pa.array(np.clip((newest - began) // _PART_MS, 0, _PARTS - 1) == number))


def _send(arena: Arena, question: TogetherQuestion, parts: dict[str, pa.Table]) -> None:
    with kafka.Sender(arena.connection.address) as sender:
        for topic, events in parts.items():
            for key, value in values(events):
                sender.send(topic + question.suffix, value, key)


def _until(done: Callable[[], bool], process: "subprocess.Popen[bytes]", setting: Setting) -> None:
    deadline = time.time() + LIMIT_S
    while not done():
        if process.poll() is not None or time.time() > deadline:
            raise TandemError(f"it ended, or was not quiet within {LIMIT_S:.0f} s; its log is {setting.folder / 'log'}")
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
