"""HLL sketches of bytes that are no text, which the Python binding of DataSketches cannot hash.

A sketch of one value is written as the sketch itself would write it: hash with MurmurHash3 x64 128 and DataSketches'
seed, take the register from the lower half and the rank from the leading zeros of the upper one.
Formulas: github.com/apache/datasketches-cpp, common/include/MurmurHash3.h and hll/include/HllUtil.hpp.
"""

import struct
from typing import Final

_SEED: Final = 9001
_MASK: Final = (1 << 64) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F
_ADDRESS_BITS: Final = 26
_MOST_ZEROS: Final = 62


def one_value_sketch(value: bytes, lg_k: int) -> bytes:
    """The compact serialized HLL_8 sketch that holds exactly this value; `value` is not empty."""
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
