"""Digests of rows: SipHash as its authors publish it, equal for equal rows alone, whichever rows are hashed together."""

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.speed.dedup.row_hash import row_hashes
from tandem.speed.dedup.siphash import SipHash

SECRET = bytes(range(16))
SCHEMA = pa.schema(
    [
        ("a", pa.string()),
        ("b", pa.string()),
        ("raw", pa.binary()),
        ("n", pa.int64()),
        ("yes", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("price", pa.decimal128(38, 2)),
        ("part", pa.int32()),
    ]
)
TEXTS = st.one_of(st.text("ab\0", max_size=20), st.sampled_from(["x" * 127, "x" * 128, "x" * 129, "x" * 1000, "y" * 1000]))
ROWS = st.fixed_dictionaries(
    {
        "a": st.none() | TEXTS,
        "b": st.none() | TEXTS,
        "raw": st.none() | TEXTS.map(str.encode),
        "n": st.none() | st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]),
        "yes": st.none() | st.booleans(),
        "day": st.none() | st.sampled_from([date(1970, 1, 1), date(1969, 12, 31)]),
        "at": st.none() | st.sampled_from([datetime(1970, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)]),
        "price": st.none() | st.sampled_from([Decimal(0), Decimal("-0.01"), Decimal("184467440737095516.16"), Decimal("0.01")]),
        "part": st.none() | st.sampled_from([0, -1]),
    }
)


@pytest.mark.parametrize(
    ("words", "digest"),
    [
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "3b62a9ba6258f5610f83e264f31497b4"),
    ],
)
def test_siphash_gives_the_published_values(words: int, digest: str) -> None:
    """`vectors_sip128` of the reference implementation: the key is 00 to 0f, the message 00, 01, and so on."""
    state = SipHash(3, SECRET)
    for word in range(words):
        state.update(np.full(3, int.from_bytes(bytes(range(8 * word, 8 * word + 8)), "little"), np.uint64))
    assert {each.astype("<u8").tobytes().hex() for each in state.digest()} == {digest}


def plain(words: list[int]) -> tuple[int, int]:
    """SipHash-2-4 of 128 bits, in plain Python."""
    low, high = (int.from_bytes(SECRET[at : at + 8], "little") for at in (0, 8))
    v = [0x736F6D6570736575 ^ low, 0x646F72616E646F6D ^ high ^ 0xEE, 0x6C7967656E657261 ^ low, 0x7465646279746573 ^ high]
    most = 2**64 - 1

    def turned(word: int, by: int) -> int:
        return ((word << by) | (word >> (64 - by))) & most

    def rounds(number: int) -> None:
        for _ in range(number):
            v[0] = (v[0] + v[1]) & most
            v[1] = turned(v[1], 13) ^ v[0]
            v[0] = turned(v[0], 32)
            v[2] = (v[2] + v[3]) & most
            v[3] = turned(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & most
            v[3] = turned(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & most
            v[1] = turned(v[1], 17) ^ v[2]
            v[2] = turned(v[2], 32)

    for word in [*words, (8 * len(words) % 256) << 56]:
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(4)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(4)
    return first, v[0] ^ v[1] ^ v[2] ^ v[3]


@given(st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=40), min_size=1, max_size=5))
def test_many_rows_of_any_length_hash_like_single_ones(messages: list[list[int]]) -> None:
    state = SipHash(len(messages), SECRET)
    for place in range(max(map(len, messages))):
        rows = np.array([row for row, words in enumerate(messages) if place < len(words)], np.int64)
        state.update(np.array([messages[row][place] for row in rows], np.uint64), rows)
    assert [tuple(each) for each in state.digest().tolist()] == [plain(words) for words in messages]


@given(st.lists(ROWS, max_size=12), st.integers(0, 12))
def test_rows_have_equal_digests_if_and_only_if_they_are_equal(rows: list[dict[str, object]], cut: int) -> None:
    """Whichever rows are in the table, and wherever a slice of it begins."""
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    names = SCHEMA.names
    found = [tuple(each) for each in row_hashes(table, names, SECRET).tolist()]
    assert len(set(found)) == len({tuple(row.values()) for row in rows})
    assert len(set(zip(found, (tuple(row.values()) for row in rows), strict=True))) == len(set(found))
    parts = [row_hashes(part, names, SECRET) for part in (table.slice(0, cut), table.slice(cut))]
    assert [tuple(each) for part in parts for each in part.tolist()] == found
    chunked = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    assert [tuple(each) for each in row_hashes(chunked, names, SECRET).tolist()] == found
    if rows:
        assert not set(found) & {tuple(each) for each in row_hashes(table, names, bytes(16)).tolist()}
