"""Documents about sources: their records, and the positions of log, archive and answers."""

from pydantic import BaseModel, Field

from tandem.serving.http.models.values import Place


class LogStateDocument(BaseModel):
    """Where a source's topics end, polled at most some seconds ago; if that is null, `problem` says why."""

    end: Place | None
    lag: int | None = Field(description="Number of its offsets that answers do not count yet.")
    problem: str | None


class ArchiveStateDocument(BaseModel):
    """The archive of a source: all records below `end`."""

    end: Place
    records: int


class UntilLossStateDocument(BaseModel):
    """How far a source is from losing unarchived records: null if nothing is limited or waits."""

    seconds: float | None
    offsets: int | None
    lost: int
    warning: str | None


class GapStateDocument(BaseModel):
    """Offsets that the log lost before they were archived; `warning` says how to continue until a recompute accepts the gap."""

    name: str
    offsets: int | None
    reason: str | None
    accepted: bool
    warning: str | None


class HotTailDocument(BaseModel):
    """The hot tail of a source (`serving.hot`), as its process last reported; `aside` says why answers are those of commits."""

    aside: str | None
    views_aside: dict[str, str] = Field(
        description="The views that stand aside because they are too heavy, with what each needs; their answers are those of "
        "commits. Empty for restricted callers."
    )
    ahead: int = Field(description="Number of offsets that it counts beyond the commits.")
    compared: int = Field(description="Comparisons of a view with the commits that took the place of hot commits.")
    mismatched: int = Field(description="Number of rows that differed in these comparisons; it must be 0.")
    bytes: int


class SourceStateDocument(BaseModel):
    """The position of a source; `until_loss` is null if the broker does not answer.

    `hot` is null without a hot tail. Positions, counts, `log`, `archive`, `until_loss` and `hot` are null for tokens restricted
    to rows; of gaps they get the names.
    """

    cut: Place | None
    realtime: Place | None
    newest: str | None
    watermark: str | None
    behind_bridge: bool | None
    identities_since: str | None = Field(
        description="Since when duplicates are recognised, if speed.identities_mb is too small for `dedup_window`; else null."
    )
    problem: str | None
    log: LogStateDocument | None
    archive: ArchiveStateDocument | None
    until_loss: UntilLossStateDocument | None
    hot: HotTailDocument | None
    gaps: list[GapStateDocument]


class EventFieldDocument(BaseModel):
    """A field of a source's events."""

    name: str
    key: str = Field(description="Its name in sent events.")
    kind: str = Field(examples=["text", "integer", "time", "list", "struct"])
    required: bool
    null: bool = Field(description="Whether it may be null.")
    unit: str | None
    doc: str | None


class SourceDescribedDocument(BaseModel):
    """A source and its records."""

    name: str
    topics: list[str]
    decoder: str = Field(examples=["json"])
    event: str = Field(description="The name of the event type.")
    fields: list[EventFieldDocument]
    event_time: str
    identity: list[str] = Field(description="The fields that identify duplicates; empty if every record counts.")
    idempotency_key: bool = Field(description="Whether `Idempotency-Key` is accepted: a repeated request counts once.")
    dedup_window_s: float = Field(
        description="Seconds during which answers drop duplicates immediately; a recompute drops all duplicates."
    )
    key: str | None = Field(
        description="The expression whose value is the key of the records; records with equal keys are in one partition."
    )
    max_events_per_record: int | None = Field(description="Maximum number of events in a record's list; null for one event.")
    kinds: list[str] | None = Field(description="If a header selects its records: the values for `kind`.")
    views: list[str] = Field(description="Its views that the token may read.")
    ingest: bool = Field(description="Whether the token may send events.")


class SourcesDocument(BaseModel):
    """The sources whose views the token may read, or to which it may send events."""

    sources: list[SourceDescribedDocument]
