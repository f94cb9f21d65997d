"""Arrow arrays from Python and numpy values and back, tables as bytes, and the rows that make a computation fail.

pyarrow's own `pa.array` and `to_numpy` import pandas, which takes seconds where it is installed and has no part in any
answer.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc

Mask = npt.NDArray[np.bool_]
"""True where there is a value."""


def from_numpy(values: npt.NDArray[np.generic], arrow: pa.DataType, valid: Mask | None = None) -> pa.Array:
    """An array of fixed-width values; null where `valid` is false."""
    return pa.Array.from_buffers(arrow, len(values), [_bits(valid), pa.py_buffer(np.ascontiguousarray(values))])


def row_numbers(rows: int) -> pa.Array:
    """The numbers from 0 to `rows` - 1, one for each row."""
    return from_numpy(np.arange(rows), pa.int64())


def binaries(values: Sequence[bytes | None]) -> pa.Array:
    """A binary array."""
    lengths = np.fromiter((len(value) if value is not None else 0 for value in values), np.int64, len(values))
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    if offsets[-1] >= 2**31:
        raise OverflowError(f"{offsets[-1]} bytes of states in one column: at most 2 GiB fit; fold fewer events at once")
    data = pa.py_buffer(b"".join(value for value in values if value is not None))
    buffers = [_bits(_valid(values)), pa.py_buffer(offsets.astype(np.int32)), data]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def floats(values: Sequence[float | None]) -> pa.Array:
    """An array of doubles."""
    numbers = np.fromiter((value if value is not None else 0.0 for value in values), np.float64, len(values))
    return from_numpy(numbers, pa.float64(), _valid(values))


def booleans(values: Mask, valid: Mask | None = None) -> pa.Array:
    """An array of truth values."""
    packed = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [_bits(valid), packed])


def decimals_of_words(words: npt.NDArray[np.int64], arrow: pa.DataType, valid: Mask | None = None) -> pa.Array:
    """A decimal array from the 64-bit words of each value, the lowest first."""
    return pa.Array.from_buffers(arrow, len(words), [_bits(valid), pa.py_buffer(np.ascontiguousarray(words))])


def decimals(unscaled: Sequence[int | None], arrow: pa.DataType) -> pa.Array:
    """A decimal array from integers that count its smallest unit."""
    width = arrow.byte_width
    data = b"".join((value or 0).to_bytes(width, "little", signed=True) for value in unscaled)
    return pa.Array.from_buffers(arrow, len(unscaled), [_bits(_valid(unscaled)), pa.py_buffer(data)])


def unscaled(array: pa.Array) -> list[int | None]:
    """The values of a decimal128 array as counts of its smallest unit."""
    words = decimal_words(array)
    low, high = words[:, 0].astype(np.uint64).tolist(), words[:, 1].tolist()
    present = validity(array).tolist()
    return [(h << 64) | lo if is_there else None for lo, h, is_there in zip(low, high, present, strict=True)]


def decimal_words(array: pa.Array) -> npt.NDArray[np.int64]:
    """The two 64-bit halves of each decimal128, the lower one first; meaningless where the array is null."""
    words = np.frombuffer(array.buffers()[1] or b"", np.int64)
    return words.reshape(-1, 2)[array.offset : array.offset + len(array)]


def integers(array: pa.Array) -> npt.NDArray[np.int64]:
    """The values of an array of 64-bit integers; meaningless where the array is null."""
    return np.frombuffer(array.buffers()[1] or b"", np.int64)[array.offset : array.offset + len(array)]


def doubles(array: pa.Array) -> npt.NDArray[np.float64]:
    """The values of an array of doubles; meaningless where the array is null."""
    return integers(array).view(np.float64)


def lengths(lists: pa.ListArray) -> npt.NDArray[np.int64]:
    """How many elements each list holds; 0 where the array is null."""
    offsets = np.frombuffer(lists.buffers()[1] or b"", np.int32)[lists.offset : lists.offset + len(lists) + 1]
    return np.where(validity(lists), np.diff(offsets), 0).astype(np.int64)


def lists(elements: pa.Array, lengths: npt.NDArray[np.int64], arrow: pa.DataType, valid: Mask | None = None) -> pa.ListArray:
    """A list array of the type from the elements of all lists and how many each holds; a list that is not valid holds none."""
    offsets = pa.py_buffer(np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))).astype(np.int32))
    return pa.Array.from_buffers(arrow, len(lengths), [_bits(valid), offsets], children=[elements])


def whole(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def table(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.Table:
    """A table of the schema; a column of another type is cast, and fails if a value does not fit."""
    typed = [
        column if column.type == field.type else column.cast(field.type) for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(typed, schema=schema)


def validity(array: pa.Array) -> Mask:
    """True where the array has a value."""
    bits = array.buffers()[0]
    if bits is None:
        return np.ones(len(array), dtype=bool)
    return np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[array.offset : array.offset + len(array)].astype(bool)


def truths(array: pa.Array) -> Mask:
    """The values of an array of truth values; meaningless where the array is null."""
    bits = np.frombuffer(array.buffers()[1] or b"", np.uint8)
    return np.unpackbits(bits, bitorder="little")[array.offset : array.offset + len(array)].astype(bool)


def _valid(values: Iterable[object]) -> Mask:
    return np.array([value is not None for value in values], dtype=bool)


def _bits(valid: Mask | None) -> pa.Buffer | None:
    return None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


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


def halved(
    made: Callable[[pa.Table], pa.Table], rows: pa.Table, fails: Callable[[BaseException], bool]
) -> Iterator[tuple[pa.Table, pa.Table | None]]:
    """The rows in pieces, each with what is made of it; None beside a single row for which that fails.

    Mostly nothing fails, and there is one piece; else some 2 log n calls find each row that does. An exception that
    `fails` does not call a failure of the rows is raised, and so is what fails without any row: no row is the cause of that.
    """
    try:
        result = made(rows)
    except BaseException as error:
        if not fails(error):
            raise
        half = rows.num_rows // 2
        if not half:
            made(rows.slice(0, 0))  # For each such row: one may leave behind a computation that fails for all others.
            yield rows, None
            return
        yield from halved(made, rows.slice(0, half), fails)
        yield from halved(made, rows.slice(half), fails)
    else:
        yield rows, result
