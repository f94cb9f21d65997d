"""The hash of a key is the same whether numpy takes it from Arrow columns or Python from one key's values."""

from collections.abc import Sequence
from datetime import UTC
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tandem.views.arrow.key_hash import KeyHash
from tests.samples import WIDE

TIME = pa.timestamp("us", "UTC")
text = st.text(max_size=30) | st.sampled_from(
    ["", "\0", "a\0", "ä", "🙂" * 40, "x" * 8, "x" * 16, "x" * 511, "x" * 513, "x" * 2000]
)
VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), text),
    (pa.binary(), st.binary(max_size=40) | st.just(b"\0" * 600)),
    (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates()),
    (TIME, st.datetimes(timezones=st.just(UTC))),
    (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    (pa.decimal128(20, 4), st.integers(-(10**20) + 1, 10**20 - 1).map(lambda n: Decimal(n).scaleb(-4, WIDE))),
]
kinds = st.lists(st.sampled_from(VALUES), min_size=1, max_size=3)
tables = kinds.flatmap(
    lambda some: st.tuples(
        st.just([arrow for arrow, _ in some]), st.lists(st.tuples(*(st.none() | values for _, values in some)), max_size=12)
    )
)


def columns(types: Sequence[pa.DataType], rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
    return [pa.array([row[n] for row in rows], arrow) for n, arrow in enumerate(types)]


@given(tables, st.integers(0, 2**64 - 1), st.integers(0, 3))
@example(([pa.string()], [(None,), ("",), ("a",)]), 0, 0)
@example(([pa.string()], [("x" * n,) for n in (511, 512, 513, 520, 2000)] + [(None,), ("x" * 513,)]), 0, 1)
@example(([pa.binary(), pa.string()], [(bytes(600), "a"), (bytes(601), None), (None, "x" * 600)]), 5, 0)
def test_columns_and_single_keys_have_the_same_hashes(
    drawn: tuple[list[pa.DataType], list[tuple[Any, ...]]], seed: int, skipped: int
) -> None:
    types, rows = drawn
    own = KeyHash(seed, tuple(types))
    found = own.of_columns([column.slice(skipped) for column in columns(types, rows)])
    assert found.tolist() == [own.of_key(row) for row in rows[skipped:]]


@given(tables, st.integers(0, 2**64 - 1))
def test_values_from_arrow_have_the_hash_of_the_given_value(
    drawn: tuple[list[pa.DataType], list[tuple[Any, ...]]], seed: int
) -> None:
    types, rows = drawn
    own = KeyHash(seed, tuple(types))
    back = zip(*(column.to_pylist() for column in columns(types, rows)), strict=True)
    assert [own.of_key(row) for row in back] == [own.of_key(row) for row in rows]


def test_zeros_of_either_sign_are_one_key() -> None:
    own = KeyHash(7, (pa.float64(),))
    assert own.of_key((0.0,)) == own.of_key((-0.0,)) == own.of_columns([pa.array([-0.0])])[0]


def test_chunks_of_columns_hash_like_one_column(monkeypatch: pytest.MonkeyPatch) -> None:
    values = pa.array([None if n % 7 == 0 else "ab\0" * (n % 11) for n in range(100)])
    own = KeyHash(1, (pa.string(),))
    whole = own.of_columns([values])
    monkeypatch.setattr("tandem.views.arrow.key_hash._PIECE", 9)
    assert np.array_equal(own.of_columns([values]), whole)


def test_hashes_of_similar_keys_spread_over_all_bits_and_depend_on_the_seed() -> None:
    keys = pa.array([f"/page/{n}" for n in range(20_000)])
    found = KeyHash(3, (pa.string(),)).of_columns([keys])
    assert len(np.unique(found)) == len(found)
    buckets = np.bincount((found >> np.uint64(56)).astype(np.int64), minlength=256)
    assert buckets.min() > 40
    assert buckets.max() < 130
    assert not (found == KeyHash(4, (pa.string(),)).of_columns([keys])).any()
