"""Python, Java, jars, ports, and whether the project's own files can be read."""

import os
import platform
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from cli import parts
from cli.doctor.check import Check, Finding, Problem, ok, unknown
from cli.doctor.subject import Subject
from infra import broker, jars, java, kafka, processes
from infra.folders import CHECKOUT
from infra.settings import FILE, keys
from views.counted import counted
from views.errors import TandemError

_ANEW: Final = (
    "remove `.venv/ready` and run `./tandem`"
    if CHECKOUT
    else "remove `jars` from the cache folder (`~/.cache/tandem`, or TANDEM_CACHE) and run `tandem up`"
)
OTHER_PORT: Final = Problem(
    "warn", "the broker runs on another port than `kafka.port` says by now", "`tandem down`, then `tandem up`"
)
NO_ARCHIVE: Final = Problem(
    "warn",
    "no archive of the classes that Spark loads was made for this Java: Spark takes twice as long to start",
    f"{_ANEW}, which makes it",
)


def _python(_: Subject) -> Iterator[Finding]:
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        raise TandemError(f"Python {platform.python_version()} runs this; the locked packages are for 3.11, 3.12 and 3.13")
    yield ok(f"{platform.python_version()} at {sys.executable}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}")


def _java(subject: Subject) -> Iterator[Finding]:
    found = java.find(subject.call.environ)
    environ = subject.call.environ
    origin = "packaged with Tandem" if found.home == java.packaged_home(environ) else f"found by {found.origin}"
    what, archive = f"{found.version} at {found.home}, {origin}", java.class_archive(found, environ)
    yield ok(what) if archive.exists() else NO_ARCHIVE.found(f"{what}; {archive} is not there")


def _jars(subject: Subject) -> Iterator[Finding]:
    folder = jars.folder(subject.call.environ)
    if wrong := jars.differing(folder):
        raise TandemError(f"{len(wrong)} jars in {folder} are missing or not those of infra/jars.lock, such as {wrong[0]}")
    yield ok(f"{len(jars.pinned())} as pinned in infra/jars.lock, in {folder}")


def _loopback(_: Subject) -> Iterator[Finding]:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
    yield ok("ports can be had on 127.0.0.1")


def _settings(subject: Subject) -> Iterator[Finding]:
    assert subject.settings
    overridden = [key.variable for key in keys() if key.variable in subject.call.environ]
    yield ok(f"{subject.call.project / FILE}{', ' + ', '.join(overridden) if overridden else ''}")


def _definitions(subject: Subject) -> Iterator[Finding]:
    project = subject.call.definitions()
    yield ok(f"{counted(len(project.sources), 'source')}, {counted(len(project.views), 'view')}")


def _ports(subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    configured = settings.kafka.port
    if settings.kafka.bootstrap:
        yield ok("none is needed: kafka.bootstrap names an outside broker")
    elif processes.running(settings.folder, broker.NAME):
        try:
            address = broker.address(settings).bootstrap
        except kafka.NoBroker:
            yield unknown("the broker is starting")
            return
        if configured and not address.endswith(f":{configured}"):
            yield OTHER_PORT.found(f"the broker runs at {address}, and kafka.port is {configured}")
        else:
            running = [f"{part.name} (process {part.pid})" for part in parts.running(settings)]
            yield ok(f"{', '.join(running)}; kafka at {address}")
    else:
        broker.refuse_taken_port(settings)
        yield ok(f"kafka.port {configured} is free" if configured else "the broker will take a free one")


CHECKS: Final = (
    Check(
        "python",
        _python,
        Problem(
            "fail",
            "another Python than 3.11, 3.12 or 3.13 runs Tandem",
            "remove `.venv`, put one of these on the PATH, run `./tandem`",
        ),
    ),
    Check(
        "java",
        _java,
        Problem(
            "fail",
            "no Java 17 or 21 is found",
            f"install one and set JAVA_HOME, or {java.HOW_TO_PACKAGE}",
        ),
        (NO_ARCHIVE,),
    ),
    Check(
        "jars",
        _jars,
        Problem(
            "fail",
            "pinned jars are missing, or their bytes are others",
            f"{_ANEW}, which fetches them",
        ),
    ),
    Check(
        "loopback",
        _loopback,
        Problem("fail", "no port can be had on 127.0.0.1", "bring the loopback interface up, allow programs to listen on it"),
    ),
    Check(
        "settings",
        _settings,
        Problem(
            "fail",
            "`tandem.toml` or a `TANDEM_` variable cannot be used",
            "correct what is named; docs/configuration.md lists all keys",
        ),
    ),
    Check(
        "definitions",
        _definitions,
        Problem(
            "fail", "`definitions.py` does not load", "correct the line that is named; `tandem check` says whether it is right"
        ),
    ),
    Check(
        "ports",
        _ports,
        Problem(
            "fail",
            "another program has the port that `kafka.port` names",
            "end that program, or set `kafka.port` to another port, or to 0",
        ),
        (OTHER_PORT,),
        needs=("settings",),
    ),
)
