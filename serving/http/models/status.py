"""Documents about the state of the installation: its parts, releases, views and sources."""

from pydantic import BaseModel, Field

from tandem.serving.http.models.sources import SourceStateDocument
from tandem.serving.http.models.views import ViewStateDocument
from tandem.serving.status.part_state import STATES


class StandingReleaseDocument(BaseModel):
    """A release beside the live one; `lag` is by source how many offsets its realtime views are behind the live ones.

    `lag` is null for tokens that are restricted to rows.
    """

    release: int
    stage: str = Field(examples=["being built", "ready", "was live", "failed"])
    why: str | None
    lag: dict[str, int] | None


class PartDocument(BaseModel):
    """One part of the installation: its state, since when, why, and what to do about it.

    `why` is null for tokens that are restricted, because it may name what they may not see.
    """

    part: str = Field(examples=["broker", "speed"])
    state: str = Field(examples=list(STATES))
    red: bool = Field(description="Whether it needs attention: it is dead, stuck or given up.")
    since: str | None
    why: str | None
    advice: str | None
    age_s: float | None = Field(description="Seconds since it last counted or polled events.")
    sentence: str


class StatusDocument(BaseModel):
    """What is published, and the positions of the readable views and their sources.

    `parts` are the parts of the installation. `standing` are the releases beside the live one.
    """

    publication: int
    release: int
    at: str
    views: dict[str, ViewStateDocument]
    sources: dict[str, SourceStateDocument]
    parts: list[PartDocument]
    standing: list[StandingReleaseDocument]


class HealthDocument(BaseModel):
    """The server is alive."""

    status: str = Field(examples=["ok"])
