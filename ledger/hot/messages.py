"""What the process that folds a hot tail sends to its server: a stream of messages, each after its length in four bytes."""

import struct
from collections.abc import Iterator, Mapping
from io import BufferedWriter
from typing import BinaryIO, Final

import msgspec

from tandem.ledger.hot.chain import HotChange, decoded, encoded
from tandem.ledger.log.positions import Position
from tandem.views.errors import TandemError

_HEAD: Final = struct.Struct(">I")
_MOST: Final = 1 << 30


class HotStatus(msgspec.Struct, frozen=True):
    """How the hot tail of one source stands.

    Args:
        aside: why it does not follow the log now, as a sentence; None while it does.
        views_aside: the views that stand aside because they are too heavy, with what each needs.
        compared: comparisons with commits that took its place, of one view each.
        mismatched: rows that differed in them, which must be 0.
        nbytes: about the bytes of memory that it uses.
        full: whether it stands still at `serving.hot_mb`, until a commit takes the place of a part.
    """

    aside: str | None = None
    views_aside: Mapping[str, str] = {}
    compared: int = 0
    mismatched: int = 0
    nbytes: int = 0
    full: bool = False


def aside(status: HotStatus, why: str) -> HotStatus:
    """The status of the same tail once it stands aside and has no hot commits, for this reason."""
    return msgspec.structs.replace(status, aside=why, views_aside={}, nbytes=0, full=False)


class HotMessage(msgspec.Struct, frozen=True):
    """A change of the hot commits of one source of a release, or without a base that there are none now, and the state.

    `lost`: there are none because the log may have lost records that they count.
    """

    release: int
    source: str
    status: HotStatus
    base: Mapping[str, Mapping[str, int]] | None = None
    commit: bytes | None = None
    lost: bool = False

    @property
    def change(self) -> HotChange | None:
        """The change. Raises TandemError if the commit cannot be read."""
        if self.base is None:
            return None
        return HotChange(Position.from_json(self.base), None if self.commit is None else decoded(self.commit))


def message_of(release: int, source: str, status: HotStatus, change: HotChange | None, *, lost: bool = False) -> HotMessage:
    """The message of a change; None for no hot commits, `lost` if the log may have lost records that they count."""
    if change is None:
        return HotMessage(release, source, status, lost=lost)
    commit = None if change.commit is None else encoded(change.commit)
    return HotMessage(release, source, status, change.base.to_json(), commit)


def write(to: BufferedWriter, message: HotMessage) -> None:
    """Send a message at once and whole, which an unbuffered stream need not do."""
    body = msgspec.msgpack.encode(message)
    to.write(_HEAD.pack(len(body)) + body)
    to.flush()


def read(of: BinaryIO) -> Iterator[HotMessage]:
    """The messages until the stream ends. Raises TandemError for anything else."""
    decoder = msgspec.msgpack.Decoder(HotMessage)
    while len(head := of.read(_HEAD.size)) == _HEAD.size:
        (length,) = _HEAD.unpack(head)
        if length > _MOST:
            raise TandemError(f"a message of the hot tail announced {length} bytes; expected at most {_MOST}")
        body = of.read(length)
        if len(body) < length:
            return
        try:
            yield decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise TandemError(f"a message of the hot tail cannot be read: {error}") from error
