"""The routes, one file per resource."""

from tandem.serving.http.routes import (
    alerts,
    changes,
    health,
    mcp,
    page,
    quarantine,
    releases,
    rows,
    runs,
    sources,
    sql,
    views,
    why,
)

ROUTERS = tuple(
    module.router for module in (health, views, rows, why, sql, changes, sources, releases, alerts, quarantine, runs, mcp, page)
)
