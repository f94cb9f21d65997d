"""Documents for operators: publications, audits, quarantine."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from tandem.serving.http.models.values import Line, Place


class ViewDiffDocument(BaseModel):
    """How many rows of a view a promotion changed; for an unchanged view only its status."""

    status: str = Field(examples=["changed", "unchanged", "added", "removed"])
    matched: int | None = None
    changed: int | None = None
    only_old: int | None = None
    only_new: int | None = None


class PublishedDocument(BaseModel):
    """A publication: who made it live, when, why and how; its release, its cuts and batch versions, the code's revision.

    `diff` is set for a promotion. `diff`, cuts and gaps are null for tokens that are restricted to rows, because they are of all
    rows.
    """

    publication: int
    parent: int
    kind: str = Field(examples=["promote"])
    at: str
    by: str = Field(examples=["promote (token:first)"])
    why: str
    release: int
    revision: str = Field(examples=["3f9c6da1b2c4"])
    cuts: dict[str, Place] | None
    views: dict[str, list[int]] = Field(description="Its batch versions, by view.")
    gaps: list[str] | None = Field(description="The accepted gaps.")
    diff: dict[str, ViewDiffDocument] | None


class HistoryDocument(BaseModel):
    """The newest publications, the newest first; `total` is how many there are."""

    publications: list[PublishedDocument]
    total: int


class FiguresDocument(BaseModel):
    """Of `rows` answers `differ` differ by more than `tolerance`, a `share`; errors are absolute, `smape` symmetric, from 0 to
    2.
    """

    rows: int
    unequal: int
    differ: int
    share: float
    largest: float
    mean: float
    smape: float
    tolerance: float


class AuditedDocument(BaseModel):
    """The audit of a measure in one run; `figures` is null if nothing was compared, and `obstacle` says why."""

    at: str
    version: int
    served: int = Field(description="The compared publication.")
    release: int
    view: str
    measure: str | None
    start: Place
    end: Place
    obstacle: str | None = Field(examples=["bridge", "damage", "gap"])
    cause: str | None
    figures: FiguresDocument | None
    examples: list[dict[str, Any]]


class AuditsDocument(BaseModel):
    """The newest audits, the newest first: one per run, view and measure."""

    audits: list[AuditedDocument]


class QuarantinedDocument(BaseModel):
    """A record that is not an event, and why."""

    topic: str = Field(description="The topic's name, else its id.")
    topic_id: str
    partition: int
    offset: int
    timestamp: str
    reason: str
    detail: str
    value: str = Field(description="The first 256 bytes as UTF-8; other bytes are written as `\\xNN`.")


class QuarantineDocument(BaseModel):
    """The newest quarantined records, the newest first; `counts` are of all, by reason; `next` is `before` of the next page."""

    source: str
    counts: dict[str, int]
    rows: list[QuarantinedDocument]
    next: str | None


class RecordAtDocument(BaseModel):
    """The position of a record."""

    model_config = ConfigDict(extra="forbid")

    topic_id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,100}$")
    partition: StrictInt = Field(ge=0, lt=10**9)
    offset: StrictInt = Field(ge=0, lt=10**18)


class RetryDocument(BaseModel):
    """Which records to decode again: the newest, those with a reason, or those at given positions."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"reason": "malformed", "limit": 20}]})

    reason: Line | None = None
    limit: StrictInt = Field(100, ge=1, le=200)
    at: list[RecordAtDocument] = Field([], max_length=200, description="These records; `reason` and `limit` are then ignored.")

    def words(self) -> list[str]:
        """The command's options, one word each."""
        places = [f"--at={one.topic_id}/{one.partition}:{one.offset}" for one in self.at]
        return places or [f"--limit={self.limit}", *([] if self.reason is None else [f"--reason={self.reason}"])]


class WouldBeDocument(BaseModel):
    """A record that would be events: the first of them, by field, and their number."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    number: int
    events: list[dict[str, Any]]


class WouldFailDocument(BaseModel):
    """A record that would be quarantined again, and why."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    reason: str
    detail: str


class RetriedDocument(BaseModel):
    """How the project folder's decoder decodes quarantined records.

    `decoder_changed` says whether it differs from the published one: only then does `apply` decode them again.
    """

    source: str
    decoder_changed: bool
    tried: int
    events: int = Field(description="Number of records that would be events.")
    others: int = Field(description="Number of records that would belong to another source.")
    would_be: list[WouldBeDocument]
    would_fail: list[WouldFailDocument]
    reasons: dict[str, int] = Field(description="Number of records that would fail, by reason.")
