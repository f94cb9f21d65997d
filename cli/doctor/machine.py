"""Checks of Python, Java, jars, ports, settings and definitions."""

import os
import platform
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from tandem.cli.doctor.check import Check, FailedCheck, Finding, ok, unknown
from tandem.cli.doctor.subject import Subject
from tandem.cli.run import part_processes
from tandem.infra import kafka
from tandem.infra.folders import CHECKOUT
from tandem.infra.java import jars, java_home
from tandem.infra.kafka import broker
from tandem.infra.process import background
from tandem.infra.settings import FILE, keys
from tandem.views.counted import counted
from tandem.views.errors import TandemError

_ANEW: Final = (
    "remove `.venv/ready` and run `./tandem`"
    if CHECKOUT
    else "remove `jars` from the cache folder (`~/.cache/tandem`, or TANDEM_CACHE) and run `tandem up`"
)
OTHER_PORT: Final = FailedCheck("warn", "the broker's port differs from `kafka.port`", "`tandem down`, then `tandem up`")
NO_ARCHIVE: Final = FailedCheck(
    "warn",
    "the archive of Spark's classes for this Java is missing: Spark takes twice as long to start",
    f"{_ANEW}, which creates it",
)
NO_ARCHIVE_THERE: Final = FailedCheck(
    "warn",
    "Java archives no classes in a folder with such a name: Spark takes twice as long to start",
    "install Tandem below a path of ASCII letters, digits and `/ . _ -` alone",
)


def _python(_: Subject) -> Iterator[Finding]:
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        raise TandemError(f"Tandem runs on Python {platform.python_version()}; the locked packages need 3.11, 3.12 or 3.13")
    yield ok(f"{platform.python_version()} at {sys.executable}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}")


def _java(subject: Subject) -> Iterator[Finding]:
    found = java_home.find(subject.call.environ)
    environ = subject.call.environ
    origin = "packaged with Tandem" if found.home == java_home.packaged_home(environ) else f"found by {found.origin}"
    what, archive = f"{found.version} at {found.home}, {origin}", java_home.class_archive(found, environ)
    if archive.exists():
        yield ok(what)
        return
    try:
        java_home.refuse_escapes([Path(sys.prefix), archive])
    except TandemError as error:
        yield NO_ARCHIVE_THERE.found(f"{what}; {error}")
    else:
        yield NO_ARCHIVE.found(f"{what}; {archive} is missing")


def _jars(subject: Subject) -> Iterator[Finding]:
    folder = jars.folder(subject.call.environ)
    if wrong := jars.differing(folder):
        raise TandemError(f"{len(wrong)} jars in {folder} are missing or differ from infra/locks/jars.lock, such as {wrong[0]}")
    yield ok(f"{len(jars.pinned())} as pinned in infra/locks/jars.lock, in {folder}")


def _loopback(_: Subject) -> Iterator[Finding]:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
    yield ok("programs can listen on 127.0.0.1")


def _settings(subject: Subject) -> Iterator[Finding]:
    assert subject.settings
    overridden = [key.variable for key in keys() if key.variable in subject.call.environ]
    yield ok(f"{subject.call.project / FILE}{', ' + ', '.join(overridden) if overridden else ''}")


def _definitions(subject: Subject) -> Iterator[Finding]:
    project = subject.call.definitions()
    yield ok(f"{counted(len(project.sources), 'source')}, {counted(len(project.every_view), 'view')}")


def _ports(subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    configured = settings.kafka.port
    if settings.kafka.bootstrap:
        yield ok("not needed: kafka.bootstrap names an outside broker")
    elif background.running(settings.folder, broker.NAME):
        try:
            address = broker.address(settings).bootstrap
        except kafka.NoBroker:
            yield unknown("the broker is starting")
            return
        if configured and not address.endswith(f":{configured}"):
            yield OTHER_PORT.found(f"the broker runs at {address}, but kafka.port is {configured}")
        else:
            running = [f"{part.name} (process {part.pid})" for part in part_processes.running(settings)]
            yield ok(f"{', '.join(running)}; kafka at {address}")
    else:
        broker.refuse_taken_port(settings)
        yield ok(f"kafka.port {configured} is free" if configured else "the broker will use a free port")


CHECKS: Final = (
    Check(
        "python",
        _python,
        FailedCheck(
            "fail",
            "Tandem does not run on Python 3.11, 3.12 or 3.13",
            "remove `.venv`, put one of these versions on the PATH, run `./tandem`",
        ),
    ),
    Check(
        "java",
        _java,
        FailedCheck(
            "fail",
            "Java 17 or 21 is missing",
            f"install one and set JAVA_HOME, or {java_home.HOW_TO_PACKAGE}",
        ),
        (NO_ARCHIVE, NO_ARCHIVE_THERE),
    ),
    Check(
        "jars",
        _jars,
        FailedCheck(
            "fail",
            "pinned jars are missing, or their contents differ",
            f"{_ANEW}, which fetches them",
        ),
    ),
    Check(
        "loopback",
        _loopback,
        FailedCheck(
            "fail", "programs cannot listen on 127.0.0.1", "bring the loopback interface up, and allow programs to listen on it"
        ),
    ),
    Check(
        "settings",
        _settings,
        FailedCheck(
            "fail",
            "`tandem.toml` or a `TANDEM_` variable is invalid",
            "correct the named setting; docs/configuration.md lists all settings",
        ),
    ),
    Check(
        "definitions",
        _definitions,
        FailedCheck("fail", "`definitions.py` does not load", "correct the named line, then run `tandem check`"),
    ),
    Check(
        "ports",
        _ports,
        FailedCheck(
            "fail",
            "another program uses the port in `kafka.port`",
            "stop that program, or set `kafka.port` to another port, or to 0",
        ),
        (OTHER_PORT,),
        needs=("settings",),
    ),
)
