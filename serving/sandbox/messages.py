"""The messages between a server and a zygote, as JSON in frames.

server -> zygote   Start (with the child's end of a socket), Kill
zygote -> server   Ready, once
"""

import msgspec


class Start(msgspec.Struct, frozen=True, tag="start"):
    """Fork a child; the frame carries its end of a socket. `number` names it from now on."""

    number: int


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """End a child, if it has not ended."""

    number: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Children can be started."""


TO_ZYGOTE = msgspec.json.Decoder(Start | Kill)
OF_ZYGOTE = msgspec.json.Decoder(Ready)
encode = msgspec.json.encode
