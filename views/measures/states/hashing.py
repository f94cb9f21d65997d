"""How sketches of distinct values hash values: as Spark's own sketch functions do, so that Spark reads and unites them.

Spark hashes integers as 64-bit integers, texts as their UTF-8 bytes, bytes as they are, doubles as doubles. It has no rule
for the other types; here booleans are hashed as 0 and 1, times as microseconds since 1970, dates and decimals as the text
that SQL gives them. Sketches ignore empty texts and bytes, so these are hashed as the integer -1.

The Python binding of DataSketches cannot hash bytes that are not text. So this module writes the sketch of one such value
byte by byte: hashed with MurmurHash3 x64 128 and DataSketches' seed. Formulas: github.com/apache/datasketches-cpp,
common/include/MurmurHash3.h, hll/include/HllUtil.hpp and theta/include/theta_sketch_impl.hpp.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeVar

import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.measures.measure import State
from tandem.views.source.value_types import ValueType

EMPTY: Final = -1
"""What the empty text and empty bytes are hashed as."""

_HASHED_AS: Final = {
    "boolean": "CAST({0} AS BIGINT)",
    "date": "CAST({0} AS VARCHAR)",
    "decimal": "CAST({0} AS VARCHAR)",
    "time": "epoch_us({0})",
}
_SEED: Final = 9001
_SEED_HASH: Final = bytes.fromhex("cc93")
_MASK: Final = (1 << 64) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F
_ADDRESS_BITS: Final = 26
_MOST_ZEROS: Final = 62


def collected(value: ValueType) -> str:
    """The SQL aggregate that collects the values of a group for a sketch, each as the type that is hashed."""
    hashed = _HASHED_AS.get(value.kind, "CAST({0} AS VARCHAR)" if pa.types.is_decimal(value.arrow) else "{0}")
    return f"list({hashed}) FILTER ({{0}} IS NOT NULL)"


def sketches_of(
    lists: pa.ListArray,
    sketch: Callable[[list[Any]], bytes],
    one_value: Callable[[bytes], bytes],
    united: Callable[[list[bytes]], bytes],
) -> pa.Array:
    """One sketch per group of values that `collected` gave: by `sketch`, and by `one_value` for bytes that are not UTF-8."""

    def of_bytes(values: list[bytes]) -> bytes:
        texts, others = _texts_and_others(values)
        return united([*map(one_value, others), sketch(texts)]) if others else sketch(texts)

    of_group = of_bytes if pa.types.is_binary(lists.type.value_type) else sketch
    return arrays.binaries(states_of(lists, lists.values.to_pylist(), of_group))


def _texts_and_others(values: list[bytes]) -> tuple[list[str], list[bytes]]:
    """The bytes that are texts, which are hashed as their UTF-8 bytes, and those that are not."""
    texts: list[str] = []
    others: list[bytes] = []
    for value in values:
        try:
            texts.append(value.decode())
        except UnicodeDecodeError:
            others.append(value)
    return texts, others


def one_value_theta(value: bytes) -> bytes:
    """The compact serialized theta sketch that holds exactly this value; `value` is not empty."""
    low, _ = _murmur3(value)
    # 1 long of preamble, version 3, family compact, flags read-only + compact + ordered, the hash of the seed.
    return bytes((1, 3, 3, 0, 0, 0x1A)) + _SEED_HASH + struct.pack("<Q", low >> 1)


def one_value_hll(value: bytes, lg_k: int) -> bytes:
    """The compact serialized HLL_8 sketch that holds exactly this value; `value` is not empty.

    The register comes from the lower half of the hash, the rank from the leading zeros of the upper one.
    """
    low, high = _murmur3(value)
    rank = min(64 - high.bit_length(), _MOST_ZEROS) + 1
    coupon = rank << _ADDRESS_BITS | low & ((1 << _ADDRESS_BITS) - 1)
    # Preamble of a sketch in list mode: 2 ints, version 1, family HLL, lg k, lg array size 3, compact, 1 coupon, HLL_8.
    return bytes((2, 1, 7, lg_k, 3, 8, 1, 8)) + struct.pack("<I", coupon)


def _murmur3(data: bytes) -> tuple[int, int]:
    h1 = h2 = _SEED
    whole = len(data) // 16 * 16
    for start in range(0, whole, 16):
        k1, k2 = struct.unpack_from("<QQ", data, start)
        h1 = (_rotated(h1 ^ _mixed_1(k1), 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 = (_rotated(h2 ^ _mixed_2(k2), 31) + h1) * 5 + 0x38495AB5 & _MASK
    tail = data[whole:].ljust(16, b"\0")
    k1, k2 = struct.unpack("<QQ", tail)
    h1 ^= _mixed_1(k1) ^ len(data)
    h2 ^= _mixed_2(k2) ^ len(data)
    h1 = h1 + h2 & _MASK
    h2 = h1 + h2 & _MASK
    h1, h2 = _finished(h1), _finished(h2)
    h1 = h1 + h2 & _MASK
    return h1, h1 + h2 & _MASK


def _mixed_1(k: int) -> int:
    return _rotated(k * _C1 & _MASK, 31) * _C2 & _MASK


def _mixed_2(k: int) -> int:
    return _rotated(k * _C2 & _MASK, 33) * _C1 & _MASK


def _finished(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & _MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ h >> 33


def _rotated(x: int, bits: int) -> int:
    return (x << bits | x >> (64 - bits)) & _MASK


Values = TypeVar("Values")


def states_of(lists: pa.ListArray, values: Values, state: Callable[[Values], bytes]) -> list[bytes | None]:
    """`state` of each group's slice of `values`, which holds the elements of all lists; None for a list without elements."""
    offsets = lists.offsets.to_pylist()
    return [
        state(values[start:to]) if start < to else None  # type: ignore[index]  # a list or a numpy array
        for start, to in pairwise(offsets)
    ]


@dataclass(frozen=True)
class _Unite:
    """Unites the sketches of each group by `united`. Equal measures have equal states, which a closure would not be."""

    united: Callable[[list[bytes]], bytes]

    def __call__(self, lists: pa.ListArray) -> pa.Array:
        return arrays.binaries(states_of(lists, lists.values.to_pylist(), self.united))


def sketch_state(
    suffix: str, *, fold: str, build: Callable[[pa.ListArray], pa.Array], united: Callable[[list[bytes]], bytes]
) -> State:
    """A sketch as bytes: `build` makes it of the values that `fold` collects, `united` merges the sketches of one group."""
    return State(suffix, pa.binary(), fold=fold, merge="list({0}) FILTER ({0} IS NOT NULL)", build=build, unite=_Unite(united))
