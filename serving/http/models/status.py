"""Documents about views, sources, parts and the caller: what they are, and where they stand."""

from pydantic import BaseModel, Field

from tandem.serving.http.models.rows import Place, ReasonDocument
from tandem.serving.status.part_state import STATES
from tandem.serving.status.sinks import WORK


class ColumnDocument(BaseModel):
    """A column of a view's rows."""

    name: str
    part: str = Field(examples=["key", "window", "measure"])
    kind: str = Field(description="Type of its values, as in the reference of rows: integer, decimal, text, time, ...")
    unit: str | None
    doc: str | None
    definition: str | None = Field(description="The expression of a key, the measure of a measure.")
    adds: bool = Field(description="Whether values of several rows can be added: counts and totals.")
    exactness: ReasonDocument | None = Field(description="Why its values are not exact in any row; null if they are.")


class ViewStateDocument(BaseModel):
    """The position of a view; `problem` is the reason if it has no answers.

    Positions are null for tokens that are restricted to rows.
    """

    source: str
    publication: int
    release: int
    fingerprint: str
    batch_version: int
    cut: Place | None
    realtime: Place | None
    newest: str | None
    watermark: str | None
    problem: str | None


class ViewSummaryDocument(BaseModel):
    """A readable view."""

    name: str
    doc: str
    keys: list[str]
    window: str
    measures: list[str]


class ViewsDocument(BaseModel):
    """All readable views."""

    views: list[ViewSummaryDocument]


class ViewDescribedDocument(ViewSummaryDocument):
    """A view: its definition, the columns of its rows and its position."""

    source: str
    where: str | None
    columns: list[ColumnDocument]
    state: ViewStateDocument


class OpenTransactionDocument(BaseModel):
    """A partition whose committed records end at an open transaction: nobody reads the `offsets` from its `offset` on yet."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    offsets: int
    since: str | None = Field(description="When it began; null if the broker does not report it.")
    transactional_id: str | None = Field(description="Null if the broker does not report it, and for restricted callers.")
    warning: str | None = Field(description="How to continue, once it has been open for a minute; null for restricted callers.")


class LogStateDocument(BaseModel):
    """Where a source's topics end, polled at most some seconds ago; if that is null, `problem` says why."""

    end: Place | None
    lag: int | None = Field(description="Number of its offsets that answers do not count yet.")
    problem: str | None
    open_transactions: list[OpenTransactionDocument] = Field(
        description="Where the log's end is held back; `lag` does not count what waits there."
    )


class RejectSampleDocument(BaseModel):
    """A reject, with its place."""

    position: str
    reason: str
    detail: str


class RejectedTailDocument(BaseModel):
    """A source of whose newest `records` more than half are rejected."""

    records: int
    rejects: dict[str, int] = Field(description="By reason.")
    since: Place = Field(description="At or near which the rejects begin.")
    cause: str = Field(description="The likely cause.")
    sample: RejectSampleDocument | None = Field(
        description="One reject; null until the archive has put one into quarantine, and for restricted callers."
    )
    warning: str


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


class TopicStateDocument(BaseModel):
    """A topic of a source; a topic that was created again has another id."""

    name: str
    id: str
    state: str = Field(description="`unknown` while the broker does not answer.", examples=["read", "new", "gone", "unknown"])


class SourceStateDocument(BaseModel):
    """The position of a source; `until_loss` is null if the broker does not answer.

    `hot` is null without a hot tail. Topics, positions, counts, `log`, `archive`, `rejected`, `until_loss` and `hot` are null for
    tokens restricted to rows; of gaps they get the names.
    """

    topics: list[TopicStateDocument] | None = Field(description="In the order of the log.")
    topic_pattern: str | None = Field(description="The pattern that names of topics match, or null.")
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
    rejected: RejectedTailDocument | None = Field(
        description="Set while more than half of the source's newest records are rejected; null while they decode."
    )
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
    topic_pattern: str | None = Field(description="The pattern that names of topics match, in place of `topics`.")
    decoder: str = Field(examples=["json"])
    event: str = Field(description="The name of the event type.")
    fields: list[EventFieldDocument]
    event_time: str
    identity: list[str] = Field(description="The fields that identify duplicates; empty if every record counts.")
    identity_spans: str | None = Field(
        description="With `event_time`, events of one identity are duplicates if their event times are equal, too; with "
        "`any_time`, at any event time. Null without an identity.",
        examples=["event_time", "any_time"],
    )
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


class SinkDocument(BaseModel):
    """Where a sink stands that has run on the server's machine.

    Positions and counts are null for tokens that are restricted to rows; errors and problems for all restricted tokens.
    """

    sink: str
    view: str
    state: str = Field(examples=list(WORK))
    lag: int | None = Field(description="Number of offsets that answers count and the target's token does not.")
    lag_s: float | None = Field(description="Seconds since the target was last seen to be the view; 0 if it is now.")
    token: str | None
    position: Place | None = Field(description="Where the commits of the token end.")
    at: str | None = Field(description="When its newest step was.")
    steps: int | None = Field(description="Since its process began, as the counts that follow.")
    rows: int | None
    gone: int | None
    comparisons: int | None = Field(description="Number of steps that compared all rows.")
    errors: int | None
    error: str | None = Field(description="The newest error, which may be over.")
    failed: str | None = Field(description="When that error was.")
    problem: str | None = Field(description="What has to be done now, if anything.")


class StatusDocument(BaseModel):
    """What is published, and the positions of the readable views and their sources.

    `parts` are the parts of the installation. `standing` are the releases beside the live one. `sinks` are those of readable
    views.
    """

    publication: int
    release: int
    at: str
    views: dict[str, ViewStateDocument]
    sources: dict[str, SourceStateDocument]
    parts: list[PartDocument]
    standing: list[StandingReleaseDocument]
    sinks: list[SinkDocument]


class SourceFreshnessDocument(BaseModel):
    """Samples of a source, the oldest first: equally long lists, an element for each minute that begins at `at`."""

    at: list[str]
    lag: list[int | None] = Field(
        description="The largest number of offsets that answers did not count; null if the log's end or the answers were unknown."
    )
    age_s: list[float | None] = Field(
        description="How old answers were at most: the seconds since the log ended at or below what they count. Null if that is "
        "unknown, also until answers count what the log had when the server started."
    )


class FreshnessDocument(BaseModel):
    """How far answers were behind the log, since the server's start and for at most 24 hours.

    A source is null for tokens that are restricted to rows.
    """

    sources: dict[str, SourceFreshnessDocument | None]


class HealthDocument(BaseModel):
    """The server is alive."""

    status: str = Field(examples=["ok"])


class MeDocument(BaseModel):
    """What a token may do: verbs, on which views, null for all, and the values of keys that visible rows have."""

    name: str
    verbs: list[str] = Field(examples=[["read", "sql"]])
    views: list[str] | None
    rows: list[str] = Field(examples=[["city=OSLO"]])
    expires: str
    max_rows: int = Field(description="Maximum number of rows of one answer.")


class AppendedDocument(BaseModel):
    """The position of a record in the log; its offset is null if the broker only reports that it has the record already."""

    topic_id: str
    partition: int
    offset: int | None


class SentDocument(BaseModel):
    """All records are in the log, acknowledged by all replicas; `records` are their positions, in the order of the body."""

    source: str
    topic: str
    records: list[AppendedDocument]
    min_position: str | None = Field(
        description="The `min_position` with which answers of the source's views count the records; null if an offset is "
        "unknown.",
        examples=['{"T":{"0":32}}'],
    )
