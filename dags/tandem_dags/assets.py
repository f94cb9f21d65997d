"""Assets for DAGs: a published view is an asset, `tandem://<project>/<view>`.

The `extra` of its events has the publication, its release and its cuts. To run a DAG for every publication, set
`schedule=[view("my_shop", "sales")]`.

`tandem://<project>/<view>/days` is the same view by whole days, for DAGs with partitions. It has an event for each day that was
rebuilt, or whose hours are all published. Airflow separates the two: an event with a partition starts only DAGs with partitions,
an event without a partition starts only the others.
"""

from collections.abc import Mapping
from typing import Any, Final

from airflow.sdk import Asset, AssetAlias

DAYS: Final = "%Y-%m-%d"


def view(project: str, name: str) -> Asset:
    """A published view."""
    return _asset(f"tandem://{project}/{name}")


def view_days(project: str, name: str) -> Asset:
    """A published view, by whole days."""
    return _asset(f"tandem://{project}/{name}/days")


def hours(project: str) -> Asset:
    """The published hours: every view counts all records that the log had at the end of the hour."""
    return _asset(f"tandem://{project}/hours")


def any_view(project: str) -> AssetAlias:
    """All views of the project. They are known when something is published, not when DAGs are parsed."""
    return AssetAlias(name=f"tandem-{project}-views")


def any_view_days(project: str) -> AssetAlias:
    """All views of the project, by whole days."""
    return AssetAlias(name=f"tandem-{project}-days")


def published(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The `extra` of events about a publication, and its views, from the document that `recompute` or `history` printed."""
    newest = document["publications"][0] if "publications" in document else document
    return {name: newest[name] for name in ("publication", "release", "cuts")}, sorted(newest["views"])


def _asset(uri: str) -> Asset:
    return Asset(name=uri, uri=uri)
