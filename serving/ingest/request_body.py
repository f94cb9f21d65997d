"""The body of a request: the values of records, byte for byte."""

from typing import Final

ONE: Final = ("application/json", "application/octet-stream")
"""Media types of a body that is one record's value."""

LINES: Final = ("application/x-ndjson", "text/plain")
"""Media types of a body in which every line is a record's value; blank lines are ignored."""

MEDIA: Final = (*ONE, *LINES)


def values(body: bytes, media: str) -> list[bytes]:
    """The values of a body of one of MEDIA; lines end with a line feed, or a carriage return and a line feed."""
    if media in ONE:
        return [body] if body else []
    lines = (line.removesuffix(b"\r") for line in body.split(b"\n"))
    return [line for line in lines if line.strip()]
