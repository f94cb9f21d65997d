"""Documents about events that were sent: where they are in the log."""

from pydantic import BaseModel, Field


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
