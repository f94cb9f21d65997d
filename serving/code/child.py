"""The process of a release's code: it is confined, receives the release's files, and runs their code on request."""

import os
import socket
from collections.abc import Callable
from typing import Final

import msgspec

from tandem.serving.code.messages import (
    FILES,
    TO_CHILD,
    VALUES,
    Denied,
    Done,
    Limits,
    Load,
    Read,
    Run,
    column_of,
    encode,
    pack,
    written,
)
from tandem.serving.ingest.trial_decode import read
from tandem.serving.sandbox import frames
from tandem.serving.sandbox.bounds import bound_files, bound_memory
from tandem.serving.sandbox.confine import CannotConfine, confine
from tandem.views.document.document import document_of
from tandem.views.errors import TandemError, said_by
from tandem.views.project.project import Project, load_files
from tandem.views.remote_code import grouped, merged, presented
from tandem.views.sql import engine

_METHODS: Final = {"merge": merged, "present": presented, "group": grouped}
_MOST: Final = 1 << 40
"""Bytes beside a message: the server is not doubted, and memory is bounded."""


def ready(told: str) -> Callable[[socket.socket], None]:
    """What a forked process does with its socket, within limits that are given as JSON."""
    limits = msgspec.json.decode(told, type=Limits)
    zygote = os.getpid()
    engine.connection()  # it is made with what a confined process may not ask for, and copied by the fork
    return lambda server: serve(server, limits, zygote)


def serve(server: socket.socket, limits: Limits, zygote: int) -> None:
    """Serve requests until the server closes the socket."""
    project: Project | None = None
    try:
        try:
            bound_files()
            bound_memory(limits.memory)  # no limit can be set once the process is confined
            confine(limits.readable, parent=zygote)
        except (CannotConfine, OSError) as error:
            frames.receive(server, most=_MOST)
            frames.send(server, encode(Denied(f"the project's code cannot run here, because it cannot be sandboxed: {error}")))
            return
        while True:
            frame = frames.receive(server, most=_MOST)
            try:
                message = TO_CHILD.decode(frame.body)
                if isinstance(message, Load):
                    project = load_files(FILES.decode(frame.payload))
                    found = memoryview(document_of(project))
                else:
                    assert project is not None, "the request came before the code was loaded"
                    found = _found(project, message, frame.payload)
                del frame
            except TandemError as error:
                frames.send(server, encode(Denied(str(error))))
            except MemoryError:
                said = f"code of the project needs more than its {limits.memory >> 20} MiB of memory"
                frames.send(server, encode(Denied(said)))
            except BaseException as error:  # noqa: BLE001  the project's own code may raise anything, SystemExit too
                frames.send(server, encode(Denied(f"code of the project raised {said_by(error)}")))
            else:
                frames.send(server, encode(Done()), found)
                del found
    except frames.Broken:
        pass  # the server has ended, or needs this no more


def _found(project: Project, asked: Run | Read, payload: bytes) -> memoryview:
    if isinstance(asked, Read):
        found = read(project.sources[asked.source], asked.topic, VALUES.decode(payload), asked.headers, asked.at)
        return memoryview(pack(found))
    call = asked.call
    return memoryview(written(_METHODS[call.method](project.views[call.view], call, column_of(payload))))
