"""Starts Spark's JVM with its properties in files: all users of a machine can read command lines, and properties have secrets."""

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from tandem.infra.files import private_files

_SUBMIT: Final = "PYSPARK_SUBMIT_ARGS"
_JAVA_OPTIONS: Final = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})
_KEY_ESCAPES: Final = _ESCAPES | str.maketrans({one: f"\\{one}" for one in " :=#!"})


def launch(properties: Mapping[str, str], folder: Path, output: Mapping[str, Any]) -> Any:
    """The gateway of a new JVM, whose driver has these properties; `output` is its stdout and stderr, as for subprocess.

    The properties are in a private folder below `folder` until the JVM has read them.
    """
    with tempfile.TemporaryDirectory(prefix="launch-", dir=folder) as own, _submitting(dict(properties), Path(own)):
        return launch_gateway(popen_kwargs=dict(output))  # type: ignore[no-untyped-call]  # PySpark has no types for it


def forget() -> None:
    """Drop what PySpark knows of a JVM that has ended or did not answer, before this process starts another."""
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001 - PySpark has no other way
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001


@contextmanager
def _submitting(properties: dict[str, str], folder: Path) -> Iterator[None]:
    for name in _JAVA_OPTIONS:
        if text := properties.get(name):
            properties[name] = _without_properties(text, folder / f"{name}.args")
    file = folder / "spark.properties"
    private_files.write(file, "".join(_line(name, value) for name, value in properties.items()))
    before = os.environ.get(_SUBMIT)
    # spark-defaults.conf counts below these, as it does below --conf.
    os.environ[_SUBMIT] = f"--load-spark-defaults --properties-file {shlex.quote(str(file))} {before or 'pyspark-shell'}"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SUBMIT]
        else:
            os.environ[_SUBMIT] = before


def _without_properties(text: str, file: Path) -> str:
    """The options of a JVM with their system properties moved to an argument file, which the launcher `java` reads.

    Flags stay, so that Spark still refuses those that it sets itself.
    """
    options = shlex.split(text)
    hidden = [option for option in options if option.startswith("-D")]
    private_files.write(file, "".join(f"{_quoted(option)}\n" for option in hidden))
    return shlex.join([f"@{file}", *(option for option in options if option not in hidden)])


def _quoted(option: str) -> str:
    return '"' + option.translate(_ESCAPES).replace('"', '\\"') + '"'


def _line(name: str, value: str) -> str:
    """A property in the form of java.util.Properties, which strips spaces before a value."""
    return f"{name.translate(_KEY_ESCAPES)}={value.translate(_ESCAPES)}\n"
