"""An executor that would compute with something else than this process is named with each difference."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tandem.infra.folders import ROOT, child_environment
from tandem.infra.settings import Settings, SparkSettings
from tandem.infra.spark import cluster, versions
from tandem.infra.spark.properties import properties as every_property
from tandem.infra.spark.versions import Report
from tandem.views.errors import TandemError
from tests.stack import environ

HERE = Report("driver", "/venv/bin/python", "3.11.7", {"duckdb": "2.0.0", "numpy": "2.4.1"}, "/opt/tandem")
THERE = replace(HERE, host="w1", tandem="tandem-1.zip")
WHERE = "the executor on w1 (/venv/bin/python)"


def test_equal_versions_differ_in_nothing() -> None:
    assert versions.differences(HERE, [THERE, replace(THERE, version="3.11.9")], "tandem-1.zip") == []


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (replace(THERE, version="3.12.1"), f"{WHERE} runs Python 3.12.1, and the driver 3.11.7"),
        (
            replace(THERE, packages={"duckdb": "1.4.0", "numpy": "2.4.1"}),
            f"{WHERE} has duckdb 1.4.0, and the driver 2.0.0",
        ),
        (
            replace(THERE, packages={"duckdb": "2.0.0", "numpy": None}),
            f"{WHERE} has numpy not installed, and the driver 2.4.1",
        ),
        (replace(THERE, tandem="/old"), f"{WHERE} imports Tandem from /old, and not the copy that the driver sent"),
    ],
)
def test_each_difference_is_named_once(there: Report, said: str) -> None:
    assert versions.differences(HERE, [THERE, there, there], "tandem-1.zip") == [said]


def test_a_report_needs_no_package() -> None:
    """An executor's Python may lack any of them: the report must name it, not fail to import."""
    command = "import sys; sys.path.insert(0, sys.argv[1]); from tandem.infra.spark import versions; print(versions.report())"
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", command, str(ROOT / "src")], capture_output=True, text=True, check=True
    )
    assert "'duckdb': None" in found.stdout


def test_a_task_on_an_executor_that_differs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    task, here = versions.compared(max), versions.report()
    monkeypatch.delenv(versions.DRIVER, raising=False)
    assert task(1, 2) == 2, "a session without a cluster"
    monkeypatch.setenv(versions.DRIVER, versions.described(here.tandem))
    assert task(1, 2) == 2
    monkeypatch.setenv(versions.DRIVER, versions.described("tandem-1.zip"))
    with pytest.raises(versions.DifferentExecutor, match=r"imports Tandem from .*, and not the copy"):
        task(1, 2)


_TASKS: Final = re.compile(r"\.(?:mapInArrow|mapPartitions|mapInPandas|foreachPartition|flatMap|map)\((?!compared\()")


@pytest.mark.parametrize("package", ["batch", "speed", "serving"])
def test_each_task_is_compared(package: str) -> None:
    """A task that is passed to Spark without the comparison would compute on any executor."""
    found = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in sorted((ROOT / package).rglob("*.py"))
        for line in file.read_text("utf-8").splitlines()
        if _TASKS.search(line)
    ]
    assert found == []


@pytest.mark.slow
@pytest.mark.spark
def test_an_executor_that_comes_after_the_versions_is_compared_too(tmp_path: Path) -> None:
    """The first task finds nothing, as if this executor had come later."""
    code = """
import os, sys
from dataclasses import replace
from tandem.batch.runtime import spark_jobs
from tandem.infra.settings import Settings, SparkSettings
from tandem.infra.spark import versions, session
described, report = versions.described, versions.report

def altered(sent):
    here = report()
    versions.report = lambda: replace(here, packages={**here.packages, "numpy": "1.0"})
    driver, versions.report = described(sent), report
    return driver

versions.described = altered
settings = Settings(state=sys.argv[1], spark=SparkSettings(master="local-cluster[1,1,1024]"))
running = session.get_or_create_session(settings, "test", environ=os.environ)
try:
    spark_jobs.each(running, abs, [-1])
except spark_jobs.TaskFailed as error:
    print(error)
running.stop()
"""
    line = [sys.executable, "-c", code, str(tmp_path / "state")]
    variables = {**child_environment(environ()), "SPARK_LOCAL_IP": "127.0.0.1"}
    ended = subprocess.run(line, env=variables, capture_output=True, text=True, check=True, timeout=300)
    numpy = versions.report().packages["numpy"]
    assert f"has numpy {numpy}, and the driver 1.0: install there what the driver has" in ended.stdout


def properties(master: str, cores: int, **changes: object) -> dict[str, str]:
    return cluster.properties(Settings(spark=SparkSettings(master=master, **changes)), ["/a.jar", "/b.jar"], cores)  # type: ignore[arg-type]


def test_cores_are_bounded_as_each_resource_manager_knows_it() -> None:
    assert properties("spark://h:1", 3)["spark.cores.max"] == "3"
    assert properties("yarn", 3)["spark.executor.instances"] == "3"
    assert properties("k8s://https://h:1", 3)["spark.executor.instances"] == "3"
    assert not {"spark.cores.max", "spark.executor.instances"} & properties("spark://h:1", 0).keys()


@pytest.mark.parametrize(("cores", "instances"), [(6, "3"), (7, "3"), (1, "1")])
def test_executors_of_several_cores_are_fewer(cores: int, instances: str) -> None:
    assert properties("yarn", cores, conf={"spark.executor.cores": "2"})["spark.executor.instances"] == instances


@pytest.mark.parametrize("given", ["two", "0", "-1", ""])
def test_a_wrong_number_of_cores_is_named(given: str) -> None:
    with pytest.raises(TandemError, match=r"spark\.executor\.cores = .* expected a whole number from 1"):
        properties("yarn", 2, conf={"spark.executor.cores": given})


def test_yarns_client_gets_a_file_system_with_a_scheme() -> None:
    """It fails on Hadoop's raw one."""
    name = "spark.hadoop.fs.file.impl"
    assert name in every_property(Settings(), os.environ)
    assert name not in every_property(Settings(spark=SparkSettings(master="yarn")), os.environ)


def test_yarn_needs_the_folder_of_its_configuration() -> None:
    yarn = Settings(spark=SparkSettings(master="yarn"))
    assert "HADOOP_CONF_DIR" in (cluster.lacks(yarn, {"HADOOP_CONF_DIR": ""}) or "")
    assert cluster.lacks(yarn, {"YARN_CONF_DIR": "/etc/hadoop"}) is None
    assert cluster.lacks(Settings(), {}) is None


def test_jars_are_sent_unless_they_are_installed() -> None:
    assert properties("spark://h:1", 0)["spark.jars"] == "/a.jar,/b.jar"
    assert "spark.jars" not in properties("spark://h:1", 0, jars="installed")
