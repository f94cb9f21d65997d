"""SipHash-2-4 with 128 bits, for many rows at once: a keyed hash whose collisions nobody finds without its key.

Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012, and the authors' `siphash.c` for 128 bits. A message is a
sequence of 64-bit words; rows may have different numbers of them. The result depends on the secret and the words alone: it is the
same in every process, on every platform, and whichever other rows are hashed beside it.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

SECRET_BYTES: Final = 16
_START: Final = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_ONE: Final = np.uint64(1)


class SipHash:
    """The state of each of `rows` messages. Add words with `update`, then call `digest` once."""

    def __init__(self, rows: int, secret: bytes) -> None:
        low, high = np.frombuffer(secret, "<u8", SECRET_BYTES // 8).astype(np.uint64)
        first = [np.uint64(word) ^ key for word, key in zip(_START, (low, high, low, high), strict=True)]
        first[1] ^= np.uint64(0xEE)
        self._state = [np.full(rows, word) for word in first]
        self._length = np.zeros(rows, np.uint64)

    def update(self, words: Words, rows: npt.NDArray[np.int64] | None = None) -> None:
        """Add one word to the messages of these rows, to all messages if None."""
        state = self._state if rows is None else [each[rows] for each in self._state]
        state[3] ^= words
        _rounds(state, 2)
        state[0] ^= words
        if rows is None:
            self._length += _ONE
            return
        for whole, some in zip(self._state, state, strict=True):
            whole[rows] = some
        self._length[rows] += _ONE

    def digest(self) -> npt.NDArray[np.uint64]:
        """The two words of each message's hash, with shape (rows, 2)."""
        self.update((self._length * np.uint64(8)) << np.uint64(56))
        state = self._state
        found = np.empty((len(self._length), 2), np.uint64)
        for half, (place, mark) in enumerate(((2, 0xEE), (1, 0xDD))):
            state[place] ^= np.uint64(mark)
            _rounds(state, 4)
            found[:, half] = state[0] ^ state[1] ^ state[2] ^ state[3]
        return found


def _rounds(state: list[Words], number: int) -> None:
    a, b, c, d = state
    shifted = np.empty_like(a)
    for _ in range(number):
        a += b
        _rotate(b, 13, shifted)
        b ^= a
        _rotate(a, 32, shifted)
        c += d
        _rotate(d, 16, shifted)
        d ^= c
        a += d
        _rotate(d, 21, shifted)
        d ^= a
        c += b
        _rotate(b, 17, shifted)
        b ^= c
        _rotate(c, 32, shifted)


def _rotate(words: Words, bits: int, shifted: Words) -> None:
    np.left_shift(words, np.uint64(bits), out=shifted)
    np.right_shift(words, np.uint64(64 - bits), out=words)
    np.bitwise_or(words, shifted, out=words)
