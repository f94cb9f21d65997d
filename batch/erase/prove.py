"""Prove an erasure: count the rows at its positions, and search all files of the tables for texts.

Parquet files are searched as bytes, with their footers and statistics, and decoded, page by page; bytes in a column that are an
Arrow stream are decoded, too. Every other file, such as the Delta logs with their bounds, is searched as bytes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tandem.batch.erase.find_records import rows_of
from tandem.batch.maintain.remove_rows import log_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import reason, unreadable
from tandem.ledger.log.erasures import Erasure

_IPC: Final = b"\xff\xff\xff\xff"
_PIECE: Final = 1 << 22
_ROWS: Final = 1 << 15


@dataclass(frozen=True)
class ErasureProof:
    """What is left of an erasure: rows at its positions by table, and by file the number of searched texts that it has."""

    erasure: Erasure
    rows: Mapping[str, int] = field(hash=False)
    files: int
    texts: int
    hits: Mapping[str, int] = field(hash=False)

    @property
    def whole(self) -> bool:
        """Whether the erasure is complete, and nothing is left."""
        return self.erasure.complete and not any(self.rows.values()) and not self.hits


def prove(tables: Tables, erasure: Erasure, texts: Sequence[str]) -> ErasureProof:
    """Count the rows, and search all files of the tables for the texts, if any. Then it reads everything. Raises Unreadable."""
    rows = {
        tables.name(address): rows_of(tables, address, where, erasure.ranges)
        for address, where in log_tables(tables, erasure.source)
    }
    forms = [_forms(text) for text in texts]
    hits: dict[str, int] = {}
    files = 0
    storage = tables.storage()
    for head in storage.list_after("") if forms else ():
        files += 1
        try:
            with storage.open(head.name) as file:
                number = _count_texts(file, forms, parquet=head.name.endswith(".parquet"))
        except FileNotFoundError:
            continue  # its owner has deleted it meanwhile
        except (OSError, pa.ArrowException) as error:
            unreadable(f"{tables.root}/{head.name}", RuntimeError(reason(error)))
        if number:
            hits[head.name] = number
    return ErasureProof(erasure, rows, files, len(texts), hits)


def _forms(text: str) -> tuple[bytes, ...]:
    """The bytes that a file may have of a text: as UTF-8, and as JSON writes it without other letters than ASCII."""
    return tuple(dict.fromkeys((text.encode(), json.dumps(text)[1:-1].encode())))


def _count_texts(file: Any, forms: Sequence[tuple[bytes, ...]], *, parquet: bool) -> int:
    """How many of the texts a file has."""
    left = set(forms)
    for piece in _pieces(file, max((len(form) for each in forms for form in each), default=0)):
        left = {each for each in left if not any(form in piece for form in each)}
    if parquet and left:
        file.seek(0)
        opened = pq.ParquetFile(file)
        for batch in opened.iter_batches(batch_size=_ROWS):
            for column in batch.columns:
                left = {each for each in left if not any(_holds(column, form) for form in each)}
    return len(forms) - len(left)


def _pieces(file: Any, most: int) -> Iterator[bytes]:
    """The bytes of a file in pieces that overlap by the longest text."""
    tail = b""
    while piece := bytes(file.read(_PIECE)):
        yield tail + piece
        tail = (tail + piece)[-most:] if most else b""


def _holds(column: pa.Array, text: bytes) -> bool:
    """Whether a value of the column, or of a column within, has the text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _holds(column.dictionary, text)
    if pa.types.is_struct(kind):
        return any(_holds(child, text) for child in column.flatten())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        return any(_holds(child, text) for child in _children(column))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return bool(pc.any(_contains(column, text)).as_py()) or any(
            _holds(inner, text)
            for value in column.to_pylist()
            if value and value.startswith(_IPC)
            for inner in _stream_columns(value)
        )
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return bool(pc.any(_contains(column.cast(pa.binary()), text)).as_py())
    return False


def _children(column: pa.Array) -> tuple[pa.Array, ...]:
    return (column.keys, column.items) if pa.types.is_map(column.type) else (column.flatten(),)


def _contains(column: pa.Array, text: bytes) -> pa.Array:
    return pc.match_substring(column, text)


def _stream_columns(value: bytes) -> Iterator[pa.Array]:
    """The columns of an Arrow stream; none if the bytes are none."""
    try:
        table = pa.ipc.open_stream(value).read_all()
    except (OSError, pa.ArrowException):
        return
    for column in table.columns:
        yield from column.chunks
