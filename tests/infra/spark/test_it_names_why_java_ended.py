"""A JVM that ends while it starts: the error names the cause, never an earlier warning."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT
from tandem.infra.java import java_home
from tandem.infra.spark.session import _culprit
from tests.stack import PYTHONPATH, environ

WARNING = "WARNING: Using incubator modules: jdk.incubator.vector"
NOISE = [
    WARNING,
    "Picked up JAVA_TOOL_OPTIONS: -Dx=y",
    "[0.009s][warning][cds] shared class paths mismatch (hint: enable -Xlog:class+path=info)",
    "OpenJDK 64-Bit Server VM warning: Options -Xverify:none and -noverify were deprecated",
    "Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties",
    "",
]
UNKNOWN = ["Unrecognized VM option 'NoSuchOption'", "Error: Could not create the Java Virtual Machine."]
SHIM = """#!/bin/sh
case "$*" in
  *org.apache.spark.launcher.Main*|-version|*' -version'*) exec {java} "$@" ;;
esac
echo '{warning}' >&2
{end}
"""
DRIVER = """
import sys, os
from tandem.infra.spark.session import NoSession, get_or_create_session
from tandem.infra.settings import Settings, SparkSettings
conf = {"spark.driver.extraJavaOptions": sys.argv[2]} if sys.argv[2] else {}
try:
    settings = Settings(state=sys.argv[1], spark=SparkSettings(master="local[1]", conf=conf))
    get_or_create_session(settings, "driver", environ=os.environ)
except NoSession as error:
    print(error)
"""


def started(folder: Path, *, home: Path | None = None, options: str = "") -> str:
    """What a process says whose Spark cannot start."""
    given = {**environ(), **({"JAVA_HOME": str(home)} if home else {}), "PYTHONPATH": PYTHONPATH}
    command = [sys.executable, "-c", DRIVER, str(folder / "state"), options]
    done = subprocess.run(command, env=given, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ([*NOISE, *UNKNOWN], "; ".join(UNKNOWN)),
        (["Error occurred during initialization of VM", *NOISE, "Too small maximum heap"], "Error occurred during"),
        ([*NOISE, "java.lang.OutOfMemoryError: Java heap space", "\tat java.base/java.util.X.y(X.java:1)", *NOISE], "Java heap"),
        (['Exception in thread "main" java.lang.NoClassDefFoundError: a/B', "Caused by: c", *NOISE], "NoClassDefFoundError: a/B"),
        (NOISE, "it ended without an error message"),
        ([], "it ended without an error message"),
    ],
)
def test_a_warning_is_never_the_cause(tmp_path: Path, printed: list[str], said: str) -> None:
    log = tmp_path / "spark.log"
    log.write_text("of an earlier start\n" + "\n".join(printed))
    found = _culprit(log, len("of an earlier start\n"))
    assert said in found
    assert "WARNING" not in found
    assert "earlier start" not in found


@pytest.mark.slow
@pytest.mark.spark
def test_a_java_that_ends_after_a_warning_is_reported_by_its_last_error(tmp_path: Path) -> None:
    assert "Multiple garbage collectors" in started(tmp_path, options="-XX:+UseSerialGC -XX:+UseParallelGC")
    (tmp_path / "bin").mkdir()
    shim = tmp_path / "bin" / "java"
    shim.write_text(SHIM.format(java=java_home.find(os.environ).command, warning=WARNING, end="kill -9 $$"))
    shim.chmod(0o755)
    found = started(tmp_path, home=tmp_path)
    assert "it may have been killed" in found
    assert "incubator" not in found
