"""The routes, one file per resource."""

from tandem.serving.http.routes import (
    audits,
    changes,
    events,
    health,
    history,
    lookup,
    me,
    metrics,
    page,
    quarantine,
    rows,
    runs,
    sources,
    sql,
    status,
    views,
)

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
    sources.router,
    events.router,
    history.router,
    audits.router,
    quarantine.router,
    runs.router,
    page.router,
)
