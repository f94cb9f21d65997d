"""Types of values that documents of the API share."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictStr

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
