"""The routes, one file per resource."""

from serving.http.routes import changes, health, lookup, me, metrics, page, rows, sql, status, views

ROUTERS = (
    health.router,
    metrics.router,
    status.router,
    me.router,
    views.router,
    rows.router,
    lookup.router,
    sql.router,
    changes.router,
    page.router,
)
