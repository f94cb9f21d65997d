"""The document of a failed request."""

from typing import Any

from pydantic import BaseModel, Field


class ProblemDocument(BaseModel):
    """A problem document (RFC 9457)."""

    title: str = Field(examples=["Bad Request"])
    status: int = Field(examples=[400])
    detail: str = Field(examples=["unknown parameter 'ky.page'; parameters: key.NAME, measures, order, limit"])
    code: str = Field(
        examples=["request-invalid"],
        description="The kind of problem, for programs: `detail` may change, codes do not (docs/errors.md).",
    )
    run: str | None = Field(None, description="With 409: the active run.")
    records: list[dict[str, Any]] | None = Field(
        None,
        description="For sent events. With 422: the invalid records, with reason and detail, at most a hundred. With 503: the "
        "outcome of each record, if some may have been written.",
    )
    min_position: str | None = Field(None, description="For sent events of which some were written: as in the answer.")
