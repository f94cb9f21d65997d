"""What the peers need beyond the platform: their jars, their Java programs, and their Python packages.

All of it is fetched at its first use into `peers` of the cache folder, with every file checked against a lock of this package.
The platform itself needs none of it.
"""

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tandem.infra import folders
from tandem.infra.java import jar_fetch, java_home
from tandem.infra.locks.environment import Environment
from tandem.views.errors import TandemError

HERE: Final = Path(__file__).resolve().parent
LOCKS: Final = HERE / "locks"
Group = Literal["kafka-streams", "flink"]
_PROGRAMS: Final[Mapping[Group, str]] = {"kafka-streams": "KafkaStreamsViews", "flink": "FlinkStatements"}


@dataclass(frozen=True)
class Provided:
    """Where the peers' jars, classes and Python are, and the Java that runs them."""

    folder: Path
    java: str

    def class_path(self, group: Group) -> str:
        """The class path of a Java program."""
        jars = sorted((self.folder / "jars" / group).glob("*.jar"))
        return ":".join(map(str, [self.folder / "classes" / group, *jars]))

    @property
    def python(self) -> str:
        """The interpreter of the peers' packages."""
        return str(_environment(self.folder).command("python"))


def program(group: Group) -> str:
    """The main class of a Java program."""
    return _PROGRAMS[group]


def script(name: str) -> str:
    """The path of a Python program of the peers."""
    return str(HERE / "programs" / f"{name}.py")


def package(name: str) -> str:
    """The version of a Python package of the peers, by the lock."""
    lines = (LOCKS / "python.lock").read_text("utf-8").splitlines()
    return next(line.split("==")[1].split()[0] for line in lines if line.startswith(f"{name}=="))


def provide(say: Callable[[str], None], *, environ: Mapping[str, str]) -> Provided:
    """Fetch what is missing and compile the Java programs. Raises TandemError with the reason if something cannot be had."""
    folder = folders.cache(environ) / "peers"
    found = java_home.find(environ)
    store = folder / "cacerts" if found.home == java_home.packaged_home(environ) else None
    provided = Provided(folder, found.command)
    try:
        if jar_fetch.differing(folder / "jars", LOCKS):
            say("fetching the jars of Kafka Streams and Flink, once")
        jar_fetch.fetch(folder / "jars", folder, java=found.command, trust_store=store, environ=environ, lists=LOCKS)
    except (jar_fetch.FetchFailed, OSError) as error:
        raise TandemError(f"the peers' jars ({LOCKS / 'jars.lock'}): {error}") from error
    _environment(folder).provide(say, environ=environ)
    for group in _PROGRAMS:
        _compile(provided, group)
    return provided


def _environment(folder: Path) -> Environment:
    return Environment("the peers' Python packages", folder / "python", LOCKS / "python.lock")


def _compile(provided: Provided, group: Group) -> None:
    """Compile a group's programs by Eclipse's compiler, which runs on a Java runtime without a JDK."""
    (compiler,) = (provided.folder / "jars" / "compiler").glob("ecj-*.jar")
    source = str(HERE / "java" / f"{_PROGRAMS[group]}.java")
    words = ["-17", "-nowarn", "-proc:none", "-cp", provided.class_path(group), "-d", str(provided.folder / "classes" / group)]
    done = subprocess.run([provided.java, "-jar", str(compiler), *words, source], check=False, capture_output=True, text=True)
    if done.returncode:
        raise TandemError(f"{source} did not compile: {done.stderr.strip() or done.stdout.strip()}")
