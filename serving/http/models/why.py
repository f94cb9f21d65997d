"""The documents of the events behind a row, and of the causes of rows' changes."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from tandem.serving.why.changed import Cause


class WindowDocument(BaseModel):
    """The row's window; both bounds are null for all time, `state` is null if nothing was counted."""

    start: str | None
    end: str | None
    state: Literal["open", "on_time", "final"] | None


class CheckDocument(BaseModel):
    """A measure of the row, and what the plain oracle computes from the events."""

    measure: str
    answer: Any
    again: Any
    verdict: Literal["equal", "within its error", "differs", "not computed again"]


class LayerDocument(BaseModel):
    """The number of events that a layer counted, and the row that they alone make."""

    events: int
    row: dict[str, Any] | None


class EventDocument(BaseModel):
    """An event that counts: its place, the fields that the view reads, and by measure the values that it reads."""

    at: str = Field(description="Topic id, partition and offset; after # the place in the record's list.", examples=["T/0:31"])
    time: str
    appended: str | None
    layer: Literal["batch", "speed"]
    after_final: bool = Field(description="Whether it arrived when the window had been labelled final.")
    fields: dict[str, Any]
    reads: dict[str, list[Any]]


class SomeDocument(BaseModel):
    """A number, and at most the first hundred; the number is null for a token that is restricted to rows."""

    number: int | None
    first: list[Any]


class NearMissesDocument(SomeDocument):
    """Records in quarantine since the window began, and those that contain the key's values."""

    rejects: int | None


class EvidenceDocument(BaseModel):
    """What a source gives to the row."""

    events: int
    after_final: int
    listed: list[EventDocument]
    duplicates: SomeDocument
    rejected: SomeDocument
    filtered: SomeDocument
    before_start: int
    near_misses: NearMissesDocument
    read: dict[str, int]


class WhyDocument(BaseModel):
    """What is behind one row of a view."""

    view: str
    key: dict[str, Any]
    window: WindowDocument
    row: dict[str, Any] | None
    agrees: bool = Field(description="Whether the row is what its events make.")
    measures: list[CheckDocument]
    layers: dict[str, LayerDocument]
    sources: dict[str, EvidenceDocument]
    final_since: dict[str, Any] | None
    may_change: list[str]
    erased: int | None
    provenance: dict[str, Any]


class DifferenceDocument(BaseModel):
    """A measure that changed; `parts`, by cause, add up to the difference, and are null for a measure that does not subtract."""

    measure: str
    before: Any
    after: Any
    parts: dict[Cause, Any] | None


class PlacesDocument(BaseModel):
    """The number of a row's events that came since the earlier moment, and the places of the first twenty."""

    number: int
    late: int = Field(description="How many of them came after a publication had labelled the row's window final.")
    first: list[str]


class ChangedRowDocument(BaseModel):
    """A row that changed: its keys and window, the measures that differ, and the events that came since."""

    row: dict[str, Any]
    measures: list[DifferenceDocument]
    events: PlacesDocument


class WhyChangedDocument(BaseModel):
    """The rows of a view that changed between two moments, and in words how the definitions of the moments differ."""

    view: str
    between: list[str] = Field(examples=[["publication 2", "now"]])
    rows: list[ChangedRowDocument]
    definition: list[str]
    kept_from: str | None = Field(
        description="The start of the first window that had stayed at the later moment; rows of earlier ones are not listed."
    )
    erased: int | None = Field(
        description="How many records of the earlier moment are erased, if what they had made is not known any more, so that no "
        "row lists it; null for a token that is restricted to rows."
    )
