"""Kafka's codecs for kafka-python, by pyarrow: without a package for each, kafka-python reads no compression but gzip's."""

import io
from typing import Any, Final

import pyarrow as pa
from kafka import codec
from kafka.record import default_records

_LENGTH_BITS: Final = 7


class _Snappy:
    """The functions of the package `snappy` that kafka-python uses: one raw block after its length, seven bits per byte."""

    @staticmethod
    def decompress(block: bytes) -> bytes:
        size = place = 0
        while True:
            byte = block[place]
            size |= (byte & 0x7F) << (_LENGTH_BITS * place)
            place += 1
            if byte < 0x80:
                break
        found: bytes = pa.Codec("snappy").decompress(block, decompressed_size=size, asbytes=True)
        return found


def provide() -> None:
    """Register pyarrow's codecs in kafka-python if their packages are not installed."""
    read: Any = default_records
    if codec.snappy is None:
        codec.snappy = _Snappy
    if codec.lz4 is None:
        codec.lz4 = pa
        read.lz4_decode = lambda payload: _streamed(payload, "lz4")
    if codec.zstd is None:
        codec.zstd = pa
        read.zstd_decode = lambda payload: _streamed(payload, "zstd")


def _streamed(payload: bytes, name: str) -> bytes:
    with pa.CompressedInputStream(io.BytesIO(payload), name) as stream:
        found: bytes = stream.read()
    return found
