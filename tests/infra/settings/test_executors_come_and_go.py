"""Executors that go when they are idle: settings with which they could not come back, or never come, are refused at once."""

import json
from pathlib import Path

import pytest

from tandem.infra.settings import Settings, SettingsError, SparkSettings, load
from tandem.infra.spark import cluster
from tandem.views.errors import TandemError

ENABLED = "spark.dynamicAllocation.enabled"
TRACKING = "spark.dynamicAllocation.shuffleTracking.enabled"
LEAST = "spark.dynamicAllocation.minExecutors"
SERVICE = "spark.shuffle.service.enabled"
CLUSTERS = ["spark://host:7077", "yarn", "k8s://https://host:6443"]


def settings_with(project: Path, master: str, idle_s: int, cores: int, conf: dict[str, str]) -> Settings:
    variables = {"MASTER": master, "EXECUTOR_IDLE_S": str(idle_s), "CORES_MAX": str(cores), "CONF": json.dumps(conf)}
    return load(project, {"TANDEM_STORAGE_FOLDER": "shared"} | {f"TANDEM_SPARK_{name}": text for name, text in variables.items()})


@pytest.mark.parametrize("master", CLUSTERS)
@pytest.mark.parametrize(
    ("allocation", "said"),
    [
        ((60, 0, {}), "spark.executor_idle_s = 60 needs spark.cores_max"),
        ((60, 4, {ENABLED: "false"}), "spark.executor_idle_s = 60 contradicts spark.dynamicAllocation.enabled = 'false'"),
        ((60, 4, {LEAST: "0"}), "starts a session without an executor"),
        ((0, 0, {ENABLED: "true"}), "starts a session without an executor"),
        ((60, 4, {TRACKING: "false"}), "lose their shuffle files"),
        ((0, 4, {ENABLED: "true", LEAST: "1", TRACKING: "False"}), "lose their shuffle files"),
    ],
)
def test_executors_that_cannot_come_and_go_are_one_sentence(
    tmp_path: Path, master: str, allocation: tuple[int, int, dict[str, str]], said: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        settings_with(tmp_path, master, *allocation)
    assert said in str(refused.value)


def test_kubernetes_has_no_shuffle_service(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Kubernetes has no shuffle service"):
        settings_with(tmp_path, "k8s://https://host:6443", 60, 4, {SERVICE: "true"})
    assert settings_with(tmp_path, "yarn", 60, 4, {SERVICE: "true", TRACKING: "false"}).spark.conf


@pytest.mark.parametrize("master", CLUSTERS)
@pytest.mark.parametrize(
    ("idle_s", "cores", "conf"),
    [
        (60, 4, {}),
        (0, 0, {ENABLED: "true", LEAST: "1"}),
        (60, 4, {LEAST: "0", "spark.dynamicAllocation.initialExecutors": "2"}),
        (0, 4, {ENABLED: "true", "spark.executor.instances": "2"}),
    ],
)
def test_what_works_is_taken(tmp_path: Path, master: str, idle_s: int, cores: int, conf: dict[str, str]) -> None:
    assert settings_with(tmp_path, master, idle_s, cores, conf).spark.executor_idle_s == idle_s


def test_yarn_begins_with_the_executors_that_the_cores_allow(tmp_path: Path) -> None:
    assert settings_with(tmp_path, "yarn", 0, 4, {ENABLED: "true"}).spark.conf
    with pytest.raises(SettingsError, match="starts a session without an executor"):
        settings_with(tmp_path, "spark://host:7077", 0, 4, {ENABLED: "true"})


@pytest.mark.parametrize("master", CLUSTERS)
def test_executors_are_bounded_by_the_cores_of_the_run(master: str) -> None:
    settings = Settings(spark=SparkSettings(master=master, executor_idle_s=30, conf={"spark.executor.cores": "2"}))
    chosen = cluster.properties(settings, [], 7)
    assert (chosen["spark.dynamicAllocation.maxExecutors"], chosen[LEAST]) == ("3", "1")
    assert chosen["spark.dynamicAllocation.executorIdleTimeout"] == "30s"
    assert chosen["spark.default.parallelism"] == "7", "a run plans for all of its cores when it has one executor"
    assert "spark.executor.instances" not in chosen


def test_an_executor_larger_than_the_run_is_refused() -> None:
    settings = Settings(spark=SparkSettings(master="spark://host:7077", conf={"spark.executor.cores": "4"}))
    with pytest.raises(TandemError, match=r"an executor of 4 cores .* does not fit into the 1 core of this run"):
        cluster.properties(settings, [], 1)
