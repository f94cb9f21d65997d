"""The messages between the processes of foreign SQL, as JSON in frames.

parent -> child    Statement, then Given (with one descriptor per view)
child  -> parent   Named or Denied, then Result (with the rows as an Arrow stream) or Denied
"""

import msgspec

from tandem.serving.sql.refusal import Reason


class Statement(msgspec.Struct, frozen=True, tag="statement"):
    """The statement to run."""

    text: str


class Named(msgspec.Struct, frozen=True, tag="named"):
    """The views that the statement names."""

    views: list[str]


class Given(msgspec.Struct, frozen=True, tag="given"):
    """The views, in the order of the frame's descriptors; `size` is their sum in bytes."""

    views: list[str]
    size: int


class Result(msgspec.Struct, frozen=True, tag="result"):
    """The rows are the frame's payload."""

    rows: int


class Denied(msgspec.Struct, frozen=True, tag="denied"):
    """There is no result, and why."""

    sentence: str
    reason: Reason


TO_CHILD = msgspec.json.Decoder(Statement | Given)
OF_CHILD = msgspec.json.Decoder(Named | Result | Denied)
encode = msgspec.json.encode
