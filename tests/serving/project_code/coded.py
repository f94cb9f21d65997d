"""A project whose own measures and decoder compute, or fail as their names say while a file lies beside the project."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tandem.infra.folders import ROOT
from tests.serving.world import World, hit, position
from tests.stack import PYTHONPATH

PROJECT = '''
import ctypes
import os
import re
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import msgspec
import pyarrow as pa

from tandem import CustomMeasure, Event, Scale, Source, View, count, total, tumbling

FAILS = Path(r"@FOLDER@", "fails")


def fails(how):
    """Fail in a way, while the file says so."""
    if FAILS.exists() and how in FAILS.read_text():
        if how == "raises":
            raise ValueError("not today")
        if how == "aborts":
            os.abort()
        if how == "blocks":
            threading.Event().wait()
        if how == "holds":
            re.match("(a|aa)+$", "a" * 100 + "b")
        if how == "hangs":
            while FAILS.exists():
                time.sleep(0.01)


@dataclass(frozen=True)
class Own(CustomMeasure):
    """A total, which may fail."""

    expression: str
    presents: str = ""
    merges: str = ""
    state = pa.int64()
    answer = pa.string()

    @property
    def inputs(self):
        return (self.expression,)

    def partial(self, groups):
        return pa.array([sum(v["v0"] for v in one) for one in groups.to_pylist()], pa.int64())

    def merge(self, groups):
        fails(self.merges)
        return pa.array([sum(one) for one in groups.to_pylist()], pa.int64())

    def present(self, states):
        if self.presents == "lies":
            return pa.array(range(len(states)), pa.int64())
        fails(self.presents)
        return pa.array([f"total {one}" for one in states.to_pylist()], pa.string())


class Hit(Event):
    moment: datetime
    page: str | None
    bytes: int
    price: Annotated[Decimal, Scale(2)]


def decoder(value: bytes) -> Hit:
    fails("hangs")
    return msgspec.json.decode(value, type=Hit)


hits = Source(topic="hits", event=Hit, event_time="moment")
own = Source(topic="own", event=Hit, event_time="moment", decoder=decoder, key="page")

plain = View(hits, keys={"page": "page"}, window=tumbling(hours=1), measures={"n": count(), "bytes": total("bytes")})
coded = View(hits, keys={"page": "page"}, measures={"own": Own("bytes"), "some": Own("bytes").filtered("bytes > 2")})
hangs = View(hits, measures={"own": Own("bytes", "hangs")})
raises = View(hits, measures={"own": Own("bytes", "raises")})
lies = View(hits, measures={"own": Own("bytes", "lies")})
holds = View(hits, measures={"own": Own("bytes", "holds")})
blocks = View(hits, measures={"own": Own("bytes", "blocks")})
aborts = View(hits, measures={"own": Own("bytes", "aborts")})
merge_hangs = View(hits, measures={"own": Own("bytes", merges="hangs")})
merge_raises = View(hits, measures={"own": Own("bytes", merges="raises")})

SOURCES = (hits, own)
VIEWS = (plain, coded, hangs, raises, lies, holds, blocks, aborts, merge_hangs, merge_raises)
'''


def coded(folder: Path) -> World:
    """Six events of three pages, half of them in a batch version."""
    (folder / "project").mkdir(parents=True)
    made = World(folder / "project", definitions=PROJECT.replace("@FOLDER@", str(folder)))
    made.append(0, *(hit(f"/{n % 3}", n + 1, minute=n) for n in range(6)))
    made.trigger(position(3))
    made.recompute(position(3))
    made.trigger(position(6))
    return made


@contextmanager
def failing(world: World, *ways: str) -> Iterator[None]:
    """While this lasts, code of the project fails in these ways."""
    told = world.folder.parent / "fails"
    told.write_text(" ".join(ways))
    try:
        yield
    finally:
        told.unlink()


@contextmanager
def started(project: Path, **settings: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """A server in a process of its own, and its address."""
    command = [sys.executable, "-m", "tandem.cli", "serve", "--project", str(project), "--port", "0", "--json"]
    environ = {**os.environ, "PYTHONPATH": PYTHONPATH, **settings}
    with (project / "stderr").open("w") as stderr:
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())["address"]
    finally:
        process.kill()
        process.communicate()
