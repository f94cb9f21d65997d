"""Documents of rows: where they come from and how exact they are, and the bodies of requests for many of them."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from tandem.serving.read.provenance import Layer
from tandem.views import exactness

Row = dict[str, Any]
Scalar = str | int | float | bool | None
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


class ReasonDocument(BaseModel):
    """Why a value is not plainly exact; the other fields are the figures of the reason."""

    model_config = ConfigDict(extra="allow")

    reason: exactness.Name
    label: exactness.Label
    says: str = Field(examples=["exact unless a duplicate arrived later than 10 min after the first copy"])


class SaidDocument(BaseModel):
    """How exact the weakest value is, and the reasons in words."""

    label: exactness.Label
    says: str


class ExactnessDocument(SaidDocument):
    """How exact the values of an answer are: a value has the reasons of every row, those of its row, and those of its column."""

    rows: exactness.Label | None = Field(
        description="How exact the weakest row is in measures that are exact by themselves; null if no measure is."
    )
    every: list[ReasonDocument] = Field(description="Reasons that hold for every row.")
    marked: list[ReasonDocument] = Field(description="Reasons that hold only for rows whose `_exactness` names them.")
    columns: dict[str, list[ReasonDocument]] = Field(
        description="Reasons by measure, for measures that are not exact in any row."
    )


class StartDocument(BaseModel):
    """A start as the definition declares it, and the first offsets that count, by topic id and partition."""

    declared: str
    topics: list[str]
    offsets: Place


class TableRowsDocument(BaseModel):
    """The number of rows of a table that are the log's first part; the version of a Delta table, empty for a folder."""

    table: str
    version: str
    rows: int


class RecordExpiryDocument(BaseModel):
    """Records that a source keeps no longer: number of offsets, greatest event time, and how long the source keeps records."""

    offsets: int
    until: str | None = Field(description="Null if none of the records had an event.")
    keep_s: float | None = Field(description="Null if the definition has no `keep` any more.")


class SourceHistoryDocument(BaseModel):
    """The tables before a source's topics, and its records that are gone."""

    tables: list[TableRowsDocument]
    log_from: str | None = Field(
        description="Of the topics events from this time on count, of tables those before it (`history_until`)."
    )
    expiry: RecordExpiryDocument | None = Field(
        description="What had expired when the publication was made. No window that stays needs these records."
    )


class SourceProvenanceDocument(BaseModel):
    """What one of several sources gives to an answer."""

    batch_version: int
    cut: Place
    realtime: Place
    hot: Place | None
    newest: str | None
    watermark: str | None
    ahead: int
    start: StartDocument | None
    history: SourceHistoryDocument | None


class TableProvenanceDocument(BaseModel):
    """What an answer knows of a table in which its view looks up."""

    position: Place
    corrections: int = Field(description="Number of versions that came after some events had looked the table up.")


class ProvenanceDocument(BaseModel):
    """What an answer counts, up to where, how fresh it is and how exact.

    Positions and counts over all rows of the view or source are null for tokens that are restricted to rows.
    """

    layer: Layer
    publication: int
    release: int
    live: bool = Field(description="False if the release was asked before its promotion; `publication` was live meanwhile.")
    fingerprint: str
    batch_version: int
    cut: Place | None
    realtime: Place | None
    hot: Place | None = Field(
        description="Where the part begins that no table has yet, which reaches to `realtime`; null without one."
    )
    start: StartDocument | None = Field(
        description="Where the source starts, if its definition says: records before that do not count."
    )
    kept_from: str | None = Field(
        description="The start of the first window that stays: earlier ones have left the view. Null if all windows stay."
    )
    history: SourceHistoryDocument | None = Field(
        description="What the answer stands on beside the source's topics as they are; null if there is nothing else."
    )
    sources: dict[str, SourceProvenanceDocument] | None = Field(
        default=None,
        description="Of a view over several sources each by name; the positions above are then of what all have counted.",
    )
    tables: dict[str, TableProvenanceDocument] | None = Field(
        default=None, description="Of a view that looks up in tables these, by the name of the table's source."
    )
    newest: str | None = Field(description="When the newest counted event was appended to the log.")
    watermark: str | None
    after_final: int | None
    ahead: int | None = Field(
        description="Number of the source's events whose time is more than `clock_skew` after their record's timestamp."
    )
    exactness: ExactnessDocument
    rejected: dict[str, int] | None
    gaps: list[dict[str, Any]]


class RowsDocument(BaseModel):
    """A page of rows; `total` counts those of all pages, `next` is the cursor of the next page, null on the last.

    A row lists in `_exactness` the reasons of `provenance.exactness.marked` that hold for it; a row without it has none. Of a
    view with calendar windows, `_local` has `window_start` and `window_end` in the view's zone; the row's own are in UTC.
    """

    view: str
    rows: list[Row]
    total: int
    next: str | None
    provenance: ProvenanceDocument


class OneRowDocument(BaseModel):
    """One row; null is the certainty that nothing with these keys and this window was counted up to `provenance.realtime`.

    A token that is restricted to rows gets 403 for all other keys, whether anything was counted for them or not.
    """

    view: str
    row: Row | None
    provenance: ProvenanceDocument


class LookedDocument(RowsDocument):
    """The rows that have the keys, in the order of the keys; `absent` has the numbers of the keys without a row, from 0.

    `hidden` has the numbers of the keys whose rows the token may not see, whether there are any or not; they are not in
    `absent`.
    """

    absent: list[int]
    hidden: list[int]


class LookupDocument(BaseModel):
    """Many keys at once: each has all of the view's keys, with values as rows have them."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"keys": [{"page": "/a"}, {"page": None}]}]})

    keys: list[dict[str, StrictStr | StrictInt | StrictFloat | StrictBool | None]] = Field(min_length=1)
    start: str | None = Field(None, alias="from", description="Windows that start at or after this time.")
    to: str | None = Field(None, description="Windows that start before this time.")
    at: str | None = Field(None, description="Of a table: the versions that were valid at this event time, not the latest.")
    measures: list[str] | None = Field(None, min_length=1, description="Names of measures. Default: all.")
    layer: Layer | None = None

    def values(self) -> list[dict[str, Scalar]]:
        """The keys as they were sent."""
        return [dict(key) for key in self.keys]


class StatementDocument(BaseModel):
    """A SQL statement."""

    model_config = ConfigDict(extra="forbid")

    statement: StrictStr = Field(min_length=1, examples=["SELECT page, sum(n) AS n FROM per_page GROUP BY ALL ORDER BY n DESC"])


class SelectedFromDocument(BaseModel):
    """What the rows of a statement count: the views that it names, all at one snapshot."""

    publication: int | None
    exactness: SaidDocument
    views: dict[str, ProvenanceDocument]


class SelectedDocument(BaseModel):
    """The rows of a statement."""

    rows: list[Row]
    total: int
    provenance: SelectedFromDocument
