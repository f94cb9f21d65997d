"""A file of values of bytes, each after its length: what Java's writeDelimitedTo writes."""

from collections.abc import Iterator
from typing import BinaryIO

from tandem.cli.records.bundles import BundledValue, lists
from tandem.cli.records.lines import LONGEST
from tandem.views.errors import TandemError

_LENGTH_BYTES = 5


def length_values(stream: BinaryIO, file: str) -> Iterator[BundledValue]:
    """The values, numbered from 1. Raises TandemError after the values before a place where a length does not fit the file."""
    number = 0
    while first := stream.read(1):
        number += 1
        length, size = _length(stream, first, number, file)
        value = stream.read(length)
        if len(value) < length:
            raise _error(number, file, f"{length} bytes announced, {len(value)} there")
        yield BundledValue(value, number, size + length)


def length_lists(stream: BinaryIO, file: str, *, most: int) -> Iterator[BundledValue]:
    """The same as lists of at most `most` messages, each after its length."""
    return lists(length_values(stream, file), most, lambda items: b"".join(map(length_bytes, items)))


def length_bytes(value: bytes) -> bytes:
    """A value after its length, as a file has it."""
    return _varint(len(value)) + value


def _varint(number: int) -> bytes:
    low = b""
    while number >= 0x80:
        low += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return low + bytes((number,))


def _length(stream: BinaryIO, byte: bytes, number: int, file: str) -> tuple[int, int]:
    """The length that begins with this byte, and the number of its bytes."""
    length = size = 0
    while byte and size < _LENGTH_BYTES:
        length |= (byte[0] & 0x7F) << 7 * size
        size += 1
        if byte[0] < 0x80:
            if length >= LONGEST:
                raise _error(number, file, f"{length} bytes announced, more than {LONGEST >> 20} MiB")
            return length, size
        byte = stream.read(1)
    raise _error(number, file, "it does not begin with a length")


def _error(number: int, file: str, why: str) -> TandemError:
    return TandemError(
        f"record {number} of {file}: {why}; values of bytes have no line ends: write the length of each before it, as a varint "
        "(Java's writeDelimitedTo, Python's google.protobuf.proto.serialize_length_prefixed)",
        code="file-unusable",
    )
