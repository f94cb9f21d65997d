"""What a `spark.master` names, and whether its executors can reach the tables of the settings."""

import re
from collections.abc import Mapping
from typing import Final, Literal

from tandem.infra.settings.settings import Settings
from tandem.infra.settings.toml_tables.spark import SparkSettings
from tandem.infra.settings.toml_tables.storage import OBJECT_STORES

Kind = Literal["local", "local-cluster", "standalone", "yarn", "kubernetes"]

# As in org.apache.spark.SparkMasterRegex, and the resource managers that PySpark's package contains.
_KINDS: Final[dict[Kind, re.Pattern[str]]] = {
    "local": re.compile(r"local(\[(\d+|\*)(,\d+)?\])?"),
    "local-cluster": re.compile(r"local-cluster\[\d+,\d+,\d+\]"),
    "standalone": re.compile(r"spark://[^\s/:,]+:\d+(,[^\s/:,]+:\d+)*"),
    "yarn": re.compile(r"yarn"),
    "kubernetes": re.compile(r"k8s://\S+"),
}
_DYNAMIC: Final = "spark.dynamicAllocation"
_ALLOCATION: Final = ("dynamicAllocation.enabled", "dynamicAllocation.shuffleTracking.enabled", "shuffle.service.enabled")
ON_THIS_HOST: Final = ("local", "local-cluster")
"""The kinds whose executors run on this host."""


def kind(master: str) -> Kind | None:
    """Which resource manager an address names; None for an address that Spark does not know."""
    return next((name for name, form in _KINDS.items() if form.fullmatch(master)), None)


def cluster_fault(settings: Settings) -> str | None:
    """Why Spark cannot run with these settings, known before any process starts; None if nothing is wrong."""
    master, storage = settings.spark.master, settings.storage
    if (found := kind(master)) is None:
        return (
            f"spark.master = {master!r} is not valid; expected local[N], local[*], spark://host:port, yarn, or "
            "k8s://https://host:port"
        )
    reached = storage.folder == "shared" or storage.root.partition("://")[0] in OBJECT_STORES
    if found == "local":
        return None
    if fault := _allocation_fault(settings.spark):
        return fault
    if found in ON_THIS_HOST or reached:
        return None
    root = storage.root or f"{settings.state} (the state folder)"
    return (
        f"spark.master = {master!r} runs tasks on other hosts, which cannot reach the tables in {root}: set storage.root to an "
        'object store, or storage.folder = "shared" if every host has this folder at the same path'
    )


def _allocation_fault(spark: SparkSettings) -> str | None:
    """Why executors cannot come and go with these settings; None also where they stay."""
    conf, idle = spark.conf, f"spark.executor_idle_s = {spark.executor_idle_s}"
    chosen, tracked, service = (_flag(conf, f"spark.{name}") for name in _ALLOCATION)
    if spark.executor_idle_s and chosen is False:
        return f"{idle} contradicts spark.dynamicAllocation.enabled = 'false' in [spark.conf]: leave one out"
    if not (spark.executor_idle_s or chosen):
        return None
    if spark.executor_idle_s and not spark.cores_max:
        return f"{idle} needs spark.cores_max: the most cores of a batch run, by which it plans its tasks"
    if _begins_empty(spark):
        return (
            "with spark.dynamicAllocation.minExecutors = 0 Spark starts a session without an executor, but a session needs one "
            "before its first task: set spark.dynamicAllocation.minExecutors in [spark.conf] to 1 or more"
        )
    if service and kind(spark.master) == "kubernetes":
        return "Kubernetes has no shuffle service: leave spark.shuffle.service.enabled out of [spark.conf]"
    if tracked is False and not service:
        return (
            "executors that come and go lose their shuffle files with spark.dynamicAllocation.shuffleTracking.enabled = 'false': "
            "leave it out of [spark.conf], or set spark.shuffle.service.enabled there if every worker has that service"
        )
    return None


def _begins_empty(spark: SparkSettings) -> bool:
    """Whether dynamic allocation begins with no executor: it takes the most that one of these properties names."""
    # infra/spark/cluster.py sets minExecutors, or the instances of YARN and Kubernetes.
    least, instances = f"{_DYNAMIC}.minExecutors", "spark.executor.instances"
    bounded = spark.cores_max and kind(spark.master) in ("yarn", "kubernetes")
    chosen = {least if spark.executor_idle_s else instances: "1" if spark.executor_idle_s or bounded else "0"} | spark.conf
    return all(chosen.get(name, "0") == "0" for name in (least, f"{_DYNAMIC}.initialExecutors", instances))


def _flag(conf: Mapping[str, str], name: str) -> bool | None:
    """A property that is true or false; None where the user has not set it."""
    return conf[name].strip().lower() == "true" if name in conf else None
