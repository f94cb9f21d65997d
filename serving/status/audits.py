"""An audit as a document: how served answers compared with what the batch then computed."""

from typing import Any

from tandem.ledger.publish.audits import Audit
from tandem.views.instant import utc_text


def document_of(audit: Audit) -> dict[str, Any]:
    """An audit as JSON; figures are null if nothing was compared, and `obstacle` says why."""
    figures = audit.figures
    return {
        "at": utc_text(audit.at),
        "version": audit.version,
        "served": audit.served,
        "release": audit.release,
        "view": audit.view,
        "measure": audit.measure or None,
        "start": audit.start.to_json(),
        "end": audit.end.to_json(),
        "obstacle": audit.obstacle,
        "cause": figures and figures.cause,
        "figures": figures
        and {
            "rows": figures.rows,
            "unequal": figures.unequal,
            "differ": figures.differ,
            "share": figures.differ / figures.rows if figures.rows else 0.0,
            "largest": figures.largest,
            "mean": figures.mean,
            "smape": figures.smape,
            "tolerance": figures.tolerance,
        },
        "examples": [dict(example) for example in figures.examples] if figures else [],
    }
