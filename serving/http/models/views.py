"""Documents about views: their definition, the columns of their rows, their position."""

from pydantic import BaseModel, Field

from tandem.serving.http.models.rows import ReasonDocument
from tandem.serving.http.models.values import Place


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
