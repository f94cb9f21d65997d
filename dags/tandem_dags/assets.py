"""What DAGs depend on: a published view is an asset, `tandem://<project>/<view>`.

Its events say what was published: `extra` has the publication, its release and its cuts. A DAG that is to run for every
publication takes `schedule=[view("my_shop", "sales")]`.

`tandem://<project>/<view>/days` is the same view by whole days, for DAGs with partitions: an event for each day all of whose
hours were published, or that was rebuilt. Airflow keeps the two apart: an event with a partition starts only DAGs with
partitions, and one without only the others.
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
    """The hours of which everything that the log had when they ended was published, in all views."""
    return _asset(f"tandem://{project}/hours")


def any_view(project: str) -> AssetAlias:
    """Which views there are is known when something was published, not when DAGs are parsed."""
    return AssetAlias(name=f"tandem-{project}-views")


def any_view_days(project: str) -> AssetAlias:
    """The same, by days."""
    return AssetAlias(name=f"tandem-{project}-days")


def published(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The extra of events about a publication, and its views, from what `recompute` or `history` printed."""
    newest = document["publications"][0] if "publications" in document else document
    return {name: newest[name] for name in ("publication", "release", "cuts")}, sorted(newest["views"])


def _asset(uri: str) -> Asset:
    return Asset(name=uri, uri=uri)
