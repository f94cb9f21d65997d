"""A project whose code does at import and in its functions whatever a server's must not, and says what it got."""

from pathlib import Path

from tests.serving.world import World, hit, position

PROJECT = '''
import os
import socket
import time
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import msgspec
import pyarrow as pa

from tandem import CustomMeasure, Event, Scale, Source, View, count, total, tumbling

HERE = r"@FOLDER@"


def tried():
    """What of all that a server's process could do is done, by name."""
    done = []

    def attempt(name, act):
        try:
            act()
        except (OSError, KeyError):
            return
        done.append(name)

    attempt("writes", lambda: Path(HERE, f"written-{os.getpid()}").write_text("x"))
    attempt("removes", lambda: os.unlink(Path(HERE, "keep")))
    attempt("makes", lambda: os.mkdir(Path(HERE, f"made-{os.getpid()}")))
    attempt("opens a socket", lambda: socket.socket())
    attempt("reads a secret", lambda: os.environ["SERVER_SECRET"])
    attempt("reads its parent's", lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes())
    attempt("reads a file", lambda: Path(HERE, "keep").read_text())
    attempt("reads the machine's", lambda: Path("/etc/passwd").read_text())
    if not armed():  # this is no confined process, and tests are not to end themselves
        return ", ".join(done) or "nothing"
    attempt("signals", lambda: os.kill(os.getppid(), 0))
    attempt("forks", lambda: os.fork() or os._exit(0))
    attempt("executes", lambda: os.execv("/bin/true", ["true"]))
    return ", ".join(done) or "nothing"


def armed():
    """Whether this is a confined process: what plays the layers in a test is none."""
    try:
        socket.socket().close()
    except OSError:
        return True
    return False


AT_IMPORT = tried()


def sums(groups):
    return [sum(one) for one in groups.to_pylist()]


@dataclass(frozen=True)
class Own(CustomMeasure):
    """A total, with what this code could do; its behaviour is the name's."""

    expression: str
    behaviour: str = ""
    state = pa.int64()
    answer = pa.string()

    @property
    def inputs(self):
        return (self.expression,)

    def partial(self, groups):
        return pa.array([sum(v["v0"] for v in one) for one in groups.to_pylist()], pa.int64())

    def merge(self, groups):
        return pa.array(sums(groups), pa.int64())

    def present(self, states):
        if self.behaviour == "hangs" and armed():
            while True:
                time.sleep(0.01)
        if self.behaviour == "crashes" and armed():
            os._exit(3)
        if self.behaviour == "eats" and armed():
            kept = []
            while True:
                kept.append(bytearray(1 << 24))
        if self.behaviour == "raises" and armed():
            raise ValueError("not today")
        if self.behaviour == "lies" and armed():
            return pa.array(range(len(states)), pa.int64())
        return pa.array([f"{one}; {AT_IMPORT}; {tried()}" for one in states.to_pylist()], pa.string())


class Hit(Event):
    moment: datetime
    page: str | None
    bytes: int
    price: Annotated[Decimal, Scale(2)]


def decoder(value: bytes) -> Hit:
    if b"hang" in value and armed():
        while True:
            pass
    found = msgspec.json.decode(value, type=Hit)
    return msgspec.structs.replace(found, page=AT_IMPORT if armed() else found.page)


hits = Source(topic="hits", event=Hit, event_time="moment")
own = Source(topic="own", event=Hit, event_time="moment", decoder=decoder, key="page")

plain = View(hits, keys={"page": "page"}, window=tumbling(hours=1), measures={"n": count(), "bytes": total("bytes")})
OWN = {"own": Own("bytes"), "some": Own("bytes").filtered("bytes > 2")}
coded = View(hits, keys={"page": "page"}, measures={"n": count(), **OWN})
hangs = View(hits, measures={"own": Own("bytes", "hangs")})
crashes = View(hits, measures={"own": Own("bytes", "crashes")})
eats = View(hits, measures={"own": Own("bytes", "eats")})
raises = View(hits, measures={"own": Own("bytes", "raises")})
lies = View(hits, measures={"own": Own("bytes", "lies")})

SOURCES = (hits, own)
VIEWS = (plain, coded, hangs, crashes, eats, raises, lies)
'''


def coded(folder: Path) -> World:
    """Six events of three pages, half of them in a batch version."""
    (folder / "keep").parent.mkdir(parents=True, exist_ok=True)
    (folder / "keep").write_text("a file")
    made = World(folder / "project", definitions=PROJECT.replace("@FOLDER@", str(folder)))
    made.append(0, *(hit(f"/{n % 3}", n + 1, minute=n) for n in range(6)))
    made.trigger(position(3))
    made.recompute(position(3))
    made.trigger(position(6))
    (folder / "keep").write_text("a file")
    return made


def files(folder: Path) -> set[str]:
    """What lies in the folder, which the project's code writes to where it can."""
    return {path.name for path in folder.iterdir()}
