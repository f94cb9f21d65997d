"""Damaged values: what a log may hold instead of what was meant to be sent."""

import random
from collections.abc import Iterator, Sequence

_PIECES = (
    b"",
    b"\0",
    b"\xff",
    b"\xed\xa0\x80",
    b'"',
    b"\\",
    b",",
    b"\n",
    b"-",
    b"9" * 30,
    b"[",
    b"{",
    b"\x01\x00",
    b"1e999",
    b"e-99999999",
)


def mutations(values: Sequence[bytes], seed: int, count: int) -> Iterator[bytes]:
    """`count` values, each one of `values` with one to three edits: the same for a seed, in every process."""
    chance = random.Random(seed)
    for _ in range(count):
        value = chance.choice(values)
        for _ in range(chance.randint(1, 3)):
            value = _edited(value, values, chance)
        yield value


def _edited(value: bytes, values: Sequence[bytes], chance: random.Random) -> bytes:
    at = chance.randint(0, len(value))
    end = min(len(value), at + chance.choice((0, 1, 1, 2, 4, 16)))
    edit = chance.randrange(5)
    if edit == 0:
        return value[:at]
    if edit == 1:
        return value[:at] + chance.choice(_PIECES) + value[end:]
    if edit == 2 and at < len(value):
        return value[:at] + bytes([value[at] ^ 1 << chance.randrange(8)]) + value[at + 1 :]
    if edit == 3:
        return value[:at] + value[at:end] * chance.randint(2, 5) + value[end:]
    other = chance.choice(values)
    return value[:at] + other[chance.randint(0, len(other)) :]
