"""The cursor of a page: the snapshot, the question and how many rows the client has.

It reveals nothing new and grants nothing: each page asks its question again, with the rights of the caller.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from tandem.serving.read.selection import BadSelection

_LONGEST: Final = 400


class Cursor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """`stand` names the snapshot and `digest` the question; the page begins after `given` rows."""

    stand: Annotated[str, Meta(max_length=64)]
    digest: Annotated[str, Meta(max_length=64)]
    given: Annotated[int, Meta(ge=0, lt=2**53)]


def to_text(cursor: Cursor) -> str:
    """The cursor as a parameter of a URL."""
    return urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def parse(text: str) -> Cursor:
    """Inverse of `to_text`. Raises BadSelection."""
    try:
        return msgspec.json.decode(urlsafe_b64decode(text[:_LONGEST] + "=" * (-len(text) % 4)), type=Cursor)
    except (ValueError, msgspec.MsgspecError):
        raise BadSelection("invalid cursor; use `next` from the previous page") from None
