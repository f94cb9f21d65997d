"""What a `spark.master` names, and whether its executors can reach the tables of the settings."""

import re
from typing import Final, Literal

from tandem.infra.settings.settings import Settings
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
    if found in ON_THIS_HOST or reached:
        return None
    root = storage.root or f"{settings.state} (the state folder)"
    return (
        f"spark.master = {master!r} runs tasks on other hosts, which cannot reach the tables in {root}: set storage.root to an "
        'object store, or storage.folder = "shared" if every host has this folder at the same path'
    )
