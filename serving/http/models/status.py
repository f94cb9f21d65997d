"""Documents about the state of the installation: its parts, releases, views and sources."""

from pydantic import BaseModel, Field

from tandem.serving.http.models.sources import SourceState
from tandem.serving.http.models.views import ViewState
from tandem.serving.status.part_state import STATES


class StandingRelease(BaseModel):
    """A release beside the live one; `lag` is by source how many offsets its realtime views are behind the live ones.

    `lag` is null for tokens that are restricted to rows.
    """

    release: int
    stage: str = Field(examples=["being built", "ready", "was live", "failed"])
    why: str | None
    lag: dict[str, int] | None


class Part(BaseModel):
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


class Status(BaseModel):
    """What is published, and the positions of the readable views and their sources.

    `parts` are the parts of the installation. `standing` are the releases beside the live one.
    """

    publication: int
    release: int
    at: str
    views: dict[str, ViewState]
    sources: dict[str, SourceState]
    parts: list[Part]
    standing: list[StandingRelease]


class Health(BaseModel):
    """The server is alive."""

    status: str = Field(examples=["ok"])
