"""The document of what a token may do."""

from pydantic import BaseModel, Field


class MeDocument(BaseModel):
    """What a token may do: verbs, on which views, null for all, and the values of keys that visible rows have."""

    name: str
    verbs: list[str] = Field(examples=[["read", "sql"]])
    views: list[str] | None
    rows: list[str] = Field(examples=[["city=OSLO"]])
    expires: str
    max_rows: int = Field(description="Maximum number of rows of one answer.")
