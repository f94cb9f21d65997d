"""What DAGs depend on: a published view is an asset, `tandem://<project>/<view>`.

Its events say what was published: `extra` has the publication, its release and its cuts. A DAG that is to run for every
publication takes `schedule=[view("my_shop", "sales")]`.

`tandem://<project>/<view>/days` is the same view by whole days, for DAGs with partitions: an event for each day all of whose
hours were published, or that was rebuilt. Airflow keeps the two apart: an event with a partition starts only DAGs with
partitions, and one without only the others.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow.sdk import Asset, AssetAlias

HOURS: Final = "%Y-%m-%dT%H:%M:%S"
DAYS: Final = "%Y-%m-%d"
_HOUR: Final = timedelta(hours=1)
_MOST: Final = 24 * 14


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


def ended(since: datetime | None, until: datetime) -> list[str]:
    """The hours that ended in `(since, until]`, as partition keys; the last one alone if nothing is known of before.

    At most two weeks of them.
    """
    end = until.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    # Airflow gives a proxy of nothing, which is not None.
    first = end - _HOUR if not since else since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    number = min(_MOST, (end - first) // _HOUR)
    return [(end - n * _HOUR).strftime(HOURS) for n in range(number, 0, -1)]


def _asset(uri: str) -> Asset:
    return Asset(name=uri, uri=uri)
