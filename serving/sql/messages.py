"""The messages between the processes of foreign SQL, as JSON in frames.

server -> zygote   Start (with the child's end of a socket), Kill
zygote -> server   Ready, once
server -> child    Statement, then Given (with one descriptor per view)
child  -> server   Named or Denied, then Result (with the rows as an Arrow stream) or Denied
"""

import msgspec

from tandem.serving.sql.refusal import Reason


class Start(msgspec.Struct, frozen=True, tag="start"):
    """Fork a child; the frame carries its end of a socket. `number` names it from now on."""

    number: int


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """End a child, if it has not ended."""

    number: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Children can be started."""


class Statement(msgspec.Struct, frozen=True, tag="statement"):
    """The statement to run."""

    text: str


class NamedViews(msgspec.Struct, frozen=True, tag="named"):
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


TO_ZYGOTE = msgspec.json.Decoder(Start | Kill)
OF_ZYGOTE = msgspec.json.Decoder(Ready)
TO_CHILD = msgspec.json.Decoder(Statement | Given)
OF_CHILD = msgspec.json.Decoder(NamedViews | Result | Denied)
encode = msgspec.json.encode
