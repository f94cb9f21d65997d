"""Arrow tables as bytes and back: how partials travel between tasks, into the realtime table and out of it."""

import pyarrow as pa
import pyarrow.ipc


def to_ipc(table: pa.Table) -> bytes:
    """The table as one Arrow IPC stream, schema and its metadata included. Equal tables may have different bytes."""
    sink = pa.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream


def from_ipc(stream: bytes) -> pa.Table:
    """Inverse of `to_ipc`; the table's columns are views into `stream`. Raises pa.ArrowInvalid if it is not an IPC stream."""
    return pyarrow.ipc.open_stream(stream).read_all()
