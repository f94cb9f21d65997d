"""The routes, one file per resource."""

from serving.http.routes import changes, health, lookup, metrics, rows, sql, status, views

ROUTERS = (health.router, metrics.router, status.router, views.router, rows.router, lookup.router, sql.router, changes.router)
