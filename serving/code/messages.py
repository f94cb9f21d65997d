"""The messages between a server and the process of a release's code, as JSON in frames.

    server -> child   Load (with the files), then any number of Run (with a column) and Read (with values)
    child  -> server  Done (with the document, the column or the read values) or Denied, once for each

A column is an Arrow stream of one column; values, and what was read of them, are MessagePack.
"""

from datetime import datetime

import msgspec
import pyarrow as pa

from tandem.serving.sandbox.bounds import MIB
from tandem.views.errors import TandemError
from tandem.views.remote_code import Call


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a release's process: `seconds` for each request, `memory` in bytes beside what it has at first.

    `readable` are the folders below which it may read.
    """

    seconds: float = 5.0
    memory: int = 512 * MIB
    readable: tuple[str, ...] = ()


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Import the definitions of the files, which are the frame's payload, and give their document."""


class Run(msgspec.Struct, frozen=True, tag="run"):
    """Run code of a view for the column of the payload."""

    call: Call


class Read(msgspec.Struct, frozen=True, tag="read"):
    """Decode records of a source, received `at`, with these headers each; the payload has their values."""

    source: str
    topic: str
    at: datetime
    headers: list[dict[str, bytes]]


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The result is the frame's payload."""


class Denied(msgspec.Struct, frozen=True, tag="denied"):
    """There is no result; the reason is from the code or the platform."""

    sentence: str


TO_CHILD = msgspec.json.Decoder(Load | Run | Read)
OF_CHILD = msgspec.json.Decoder(Done | Denied)
FILES = msgspec.msgpack.Decoder(dict[str, bytes])
VALUES = msgspec.msgpack.Decoder(list[bytes])
encode = msgspec.json.encode
pack = msgspec.msgpack.encode


def written(column: pa.Array) -> pa.Buffer:
    """A column as bytes."""
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays([column], names=["column"])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def column_of(payload: bytes) -> pa.Array:
    """The column in such bytes, from any sender. Raises TandemError."""
    try:
        (batch,) = pa.ipc.open_stream(payload)
        batch.validate(full=True)
        (column,) = batch.columns
    except (pa.ArrowException, ValueError, OSError) as error:
        raise TandemError(f"the message is not a column: {error}") from error
    return column
