"""What a request's body holds: the values of records, byte for byte."""

from typing import Final

ONE: Final = ("application/json", "application/octet-stream")
"""Media types of a body that is a record's value as it is."""

LINES: Final = ("application/x-ndjson", "text/plain")
"""Media types of a body whose every line is a record's value; blank ones are none."""

MEDIA: Final = (*ONE, *LINES)


def values(body: bytes, media: str) -> list[bytes]:
    """The values of a body of one of MEDIA; lines end with a line feed, or a carriage return and a line feed."""
    if media in ONE:
        return [body] if body else []
    lines = (line.removesuffix(b"\r") for line in body.split(b"\n"))
    return [line for line in lines if line.strip()]
