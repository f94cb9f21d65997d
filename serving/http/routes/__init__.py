"""The routes, one file per resource."""

from tandem.serving.http.routes import alerts, changes, health, page, quarantine, releases, rows, runs, sources, sql, views

ROUTERS = tuple(
    module.router for module in (health, views, rows, sql, changes, sources, releases, alerts, quarantine, runs, page)
)
