"""Documents about alerts: what is raised, and the newest edges."""

from typing import Any

from pydantic import BaseModel, Field


class AlertEdgeDocument(BaseModel):
    """One change of a row's alert."""

    id: str
    of: str = Field(description="The id of the edge that raised it.")
    alert: str
    view: str
    kind: str = Field(examples=["raised", "cleared", "corrected"])
    because: str = Field(examples=["events", "past", "late", "recompute", "definition"])
    text: str
    since: str = Field(description="When the row began to meet the condition.")
    at: str
    place: dict[str, Any] = Field(description="The row's keys and window.")


class AlertStandsDocument(BaseModel):
    """Where an alert stands."""

    alert: str
    raised: list[AlertEdgeDocument] = Field(description="An edge for each row for which it is raised.")
    unsent: dict[str, int] = Field(description="By receiver, the number of edges that it has not acknowledged.")
    faults: dict[str, str] = Field(
        description="By receiver, why the newest attempt failed; empty for restricted callers, since a reason may name addresses."
    )


class AlertsDocument(BaseModel):
    """The alerts that have run, and the newest edges, the newest first."""

    alerts: list[AlertStandsDocument]
    recent: list[AlertEdgeDocument]
