"""Documents about views, sources and events, and the body of a lookup."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from serving.http.answers.key_lookup import Scalar
from serving.read.provenance import Layer
from serving.status.part_state import STATES
from views import exactness

Row = dict[str, Any]
Place = Annotated[
    dict[str, dict[str, int]],
    Field(description="The next offset to count, by topic id and partition.", examples=[{"T": {"0": 31}}]),
]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it has unprintable characters")
    return text


Line = Annotated[StrictStr, Field(max_length=500), AfterValidator(_printable)]
"""One line of text from a person, which a command line accepts."""


class Problem(BaseModel):
    """A problem document (RFC 9457)."""

    title: str = Field(examples=["Bad Request"])
    status: int = Field(examples=[400])
    detail: str = Field(examples=["unknown parameter 'ky.page'; parameters: key.NAME, measures, order, limit"])
    run: str | None = Field(None, description="With 409: the active run.")
    records: list[dict[str, Any]] | None = Field(
        None,
        description="For sent events. With 422: the invalid records, with reason and detail, at most a hundred. With 503: the "
        "outcome of each record, if some may have been written.",
    )
    min_position: str | None = Field(None, description="For sent events of which some were written: as in the answer.")


class Reason(BaseModel):
    """Why a value is not plainly exact; the other fields are the figures of the reason."""

    model_config = ConfigDict(extra="allow")

    reason: exactness.Name
    label: exactness.Label
    says: str = Field(examples=["exact unless a duplicate arrived later than 10 min after the first copy"])


class Said(BaseModel):
    """How exact the weakest value is, and the reasons in words."""

    label: exactness.Label
    says: str


class Exactness(Said):
    """How exact the values of an answer are: a value has the reasons of every row, those of its row, and those of its column."""

    rows: exactness.Label | None = Field(
        description="How exact the weakest row is in measures that are exact by themselves; null if no measure is."
    )
    every: list[Reason] = Field(description="Reasons that hold for every row.")
    marked: list[Reason] = Field(description="Reasons that hold only for rows whose `_exactness` names them.")
    columns: dict[str, list[Reason]] = Field(description="Reasons by measure, for measures that are not exact in any row.")


class Provenance(BaseModel):
    """What an answer counts, up to where, how fresh it is and how exact.

    Positions and counts over all rows of the view or source are null for tokens that are restricted to rows.
    """

    layer: Layer
    publication: int
    release: int
    fingerprint: str
    batch_version: int
    cut: Place | None
    realtime: Place | None
    newest: str | None = Field(description="When the newest counted event was appended to the log.")
    watermark: str | None
    after_final: int | None
    ahead: int | None = Field(
        description="Number of the source's events whose time is more than `clock_skew` after their record's timestamp."
    )
    exactness: Exactness
    rejected: dict[str, int] | None
    gaps: list[dict[str, Any]]


class Rows(BaseModel):
    """A page of rows; `total` counts those of all pages, `next` is the cursor of the next page, null on the last.

    A row lists in `_exactness` the reasons of `provenance.exactness.marked` that hold for it; a row without it has none.
    """

    view: str
    rows: list[Row]
    total: int
    next: str | None
    provenance: Provenance


class OneRow(BaseModel):
    """One row; null is the certainty that nothing with these keys and this window was counted up to `provenance.realtime`.

    A token that is restricted to rows gets 403 for all other keys, whether anything was counted for them or not.
    """

    view: str
    row: Row | None
    provenance: Provenance


class Looked(Rows):
    """The rows that have the keys, in the order of the keys; `absent` has the numbers of the keys without a row, from 0.

    `hidden` has the numbers of the keys whose rows the token may not see, whether there are any or not; they are not in
    `absent`.
    """

    absent: list[int]
    hidden: list[int]


class Lookup(BaseModel):
    """Many keys at once: each has all of the view's keys, with values as rows have them."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"keys": [{"page": "/a"}, {"page": None}]}]})

    keys: list[dict[str, StrictStr | StrictInt | StrictFloat | StrictBool | None]] = Field(min_length=1)
    start: str | None = Field(None, alias="from", description="Windows that start at or after this time.")
    to: str | None = Field(None, description="Windows that start before this time.")
    measures: list[str] | None = Field(None, min_length=1, description="Names of measures. Default: all.")
    layer: Layer | None = None

    def values(self) -> list[dict[str, Scalar]]:
        """The keys as they were sent."""
        return [dict(key) for key in self.keys]


class Column(BaseModel):
    """A column of a view's rows."""

    name: str
    part: str = Field(examples=["key", "window", "measure"])
    kind: str = Field(description="Type of its values, as in the reference of rows: integer, decimal, text, time, ...")
    unit: str | None
    doc: str | None
    definition: str | None = Field(description="The expression of a key, the measure of a measure.")
    adds: bool = Field(description="Whether values of several rows can be added: counts and totals.")
    exactness: Reason | None = Field(description="Why its values are not exact in any row; null if they are.")


class ViewState(BaseModel):
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


class ViewSummary(BaseModel):
    """A readable view."""

    name: str
    doc: str
    keys: list[str]
    window: str
    measures: list[str]


class Views(BaseModel):
    """All readable views."""

    views: list[ViewSummary]


class ViewDescribed(ViewSummary):
    """A view: its definition, the columns of its rows and its position."""

    source: str
    where: str | None
    columns: list[Column]
    state: ViewState


class LogState(BaseModel):
    """Where a source's topics end, polled at most some seconds ago; if that is null, `problem` says why."""

    end: Place | None
    lag: int | None = Field(description="Number of its offsets that answers do not count yet.")
    problem: str | None


class ArchiveState(BaseModel):
    """The archive of a source: all records below `end`."""

    end: Place
    records: int


class UntilLossState(BaseModel):
    """How far a source is from losing unarchived records: null if nothing is limited or waits."""

    seconds: float | None
    offsets: int | None
    lost: int
    warning: str | None


class GapState(BaseModel):
    """Offsets that the log lost before they were archived; `warning` says how to continue until a recompute accepts the gap."""

    name: str
    offsets: int | None
    reason: str | None
    accepted: bool
    warning: str | None


class StandingRelease(BaseModel):
    """A release beside the live one; `lag` is by source how many offsets its realtime views are behind the live ones.

    `lag` is null for tokens that are restricted to rows.
    """

    release: int
    stage: str = Field(examples=["being built", "ready", "was live", "failed"])
    why: str | None
    lag: dict[str, int] | None


class SourceState(BaseModel):
    """The position of a source; `until_loss` is null if the broker does not answer.

    Positions, counts, `log`, `archive` and `until_loss` are null for tokens restricted to rows; of gaps they get the names.
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
    log: LogState | None
    archive: ArchiveState | None
    until_loss: UntilLossState | None
    gaps: list[GapState]


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
    """What is published, and how far the readable views and their sources have come.

    `parts` are the parts of the installation. `standing` are the releases beside the live one.
    """

    publication: int
    release: int
    at: str
    views: dict[str, ViewState]
    sources: dict[str, SourceState]
    parts: list[Part]
    standing: list[StandingRelease]


class Me(BaseModel):
    """What a token may do: verbs, on which views, null for all, and the values of keys that visible rows have."""

    name: str
    verbs: list[str] = Field(examples=[["read", "sql"]])
    views: list[str] | None
    rows: list[str] = Field(examples=[["city=OSLO"]])
    expires: str
    max_rows: int = Field(description="Maximum number of rows of one answer.")


class Statement(BaseModel):
    """A SQL statement."""

    model_config = ConfigDict(extra="forbid")

    statement: StrictStr = Field(min_length=1, examples=["SELECT page, sum(n) AS n FROM per_page GROUP BY ALL ORDER BY n DESC"])


class SelectedFrom(BaseModel):
    """What the rows of a statement count: the views that it names, all at one snapshot."""

    publication: int | None
    exactness: Said
    views: dict[str, Provenance]


class Selected(BaseModel):
    """The rows of a statement."""

    rows: list[Row]
    total: int
    provenance: SelectedFrom


class EventField(BaseModel):
    """A field of a source's events."""

    name: str
    key: str = Field(description="Its name in sent events.")
    kind: str = Field(examples=["text", "integer", "time", "list", "struct"])
    required: bool
    null: bool = Field(description="Whether it may be null.")
    unit: str | None
    doc: str | None


class SourceDescribed(BaseModel):
    """A source and its records."""

    name: str
    topics: list[str]
    decoder: str = Field(examples=["json"])
    event: str = Field(description="The name of the event type.")
    fields: list[EventField]
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


class Sources(BaseModel):
    """The sources whose views the token may read, or to which it may send events."""

    sources: list[SourceDescribed]


class Appended(BaseModel):
    """The position of a record in the log; its offset is null if the broker only reports that it has the record already."""

    topic_id: str
    partition: int
    offset: int | None


class Sent(BaseModel):
    """All records are in the log, acknowledged by all replicas; `records` are their positions, in the order of the body."""

    source: str
    topic: str
    records: list[Appended]
    min_position: str | None = Field(
        description="The `min_position` with which answers of the source's views count the records; null if an offset is "
        "unknown.",
        examples=['{"T":{"0":32}}'],
    )


class Health(BaseModel):
    """The server is alive."""

    status: str = Field(examples=["ok"])
