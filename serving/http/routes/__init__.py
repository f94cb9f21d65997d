"""The routes, one file per resource."""

from serving.http.routes import changes, events, health, lookup, metrics, rows, sources, sql, status, views

ROUTERS = (
    health.router,
    metrics.router,
    status.router,
    views.router,
    rows.router,
    lookup.router,
    sql.router,
    changes.router,
    sources.router,
    events.router,
)
