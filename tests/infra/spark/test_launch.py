"""Properties reach Spark's JVM unchanged, whatever characters they contain, and no command line shows them."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tandem.infra.java import java_home
from tandem.infra.spark import launch
from tests.stack import environ

AWKWARD = {
    "spark.hadoop.fs.s3a.secret.key": "a b=c:d#e!f\\g\"h'i\tj,é",
    "spark.hadoop.odd key:=#!": "x",
    "spark.empty": "",
}
OPTIONS = '-Dtandem.word="two words" -XX:-UsePerfData -Dtandem.back=\'a\\b"c\' -Dtandem.plain=é'
SHOW = """
import java.nio.file.*;
import java.util.*;
public class Show {
    static void show(String name, String value) { System.out.println(name + "\\u0001" + value); }
    public static void main(String[] told) throws Exception {
        Properties read = new Properties();
        try (var file = Files.newBufferedReader(Path.of(told[0]))) { read.load(file); }
        for (String name : new TreeSet<>(read.stringPropertyNames())) show(name, read.getProperty(name));
        for (String name : List.of("word", "back", "plain")) show(name, System.getProperty("tandem." + name));
    }
}
"""


def test_java_reads_the_given_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Java's own readers of properties and of argument files, with a folder whose name has a blank."""
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--verbose pyspark-shell")
    folder = tmp_path / "a folder"
    folder.mkdir()
    given = {**AWKWARD, "spark.driver.extraJavaOptions": OPTIONS}
    with launch._submitting(dict(given), folder):
        submitted = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
        assert (submitted[0], submitted[1], submitted[-2:]) == (
            "--load-spark-defaults",
            "--properties-file",
            ["--verbose", "pyspark-shell"],
        )
        assert not set(given.values()) & set(submitted)
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        options = launch._without_properties(OPTIONS, tmp_path / "args")
        assert options == f"@{tmp_path / 'args'} -XX:-UsePerfData"
        (tmp_path / "Show.java").write_text(SHOW)
        command = [java_home.find(environ()).command, *shlex.split(options), str(tmp_path / "Show.java"), submitted[2]]
        if not shutil.which("javac"):
            pytest.skip("the Java here compiles nothing")
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    shown = dict(line.split("\x01", 1) for line in done.stdout.splitlines())
    assert {name: shown[name] for name in AWKWARD} == AWKWARD
    assert [shown[name] for name in ("word", "back", "plain")] == ["two words", 'a\\b"c', "é"]
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--verbose pyspark-shell"
