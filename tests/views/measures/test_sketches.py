"""Sketches hash as Spark does, estimate within their error, and answer the same for every split where they promise to."""

from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pytest

from tandem.views.kernel.kernel import Partial, merge, partial, present
from tandem.views.measures import Measure, approx_count_distinct, approx_quantiles
from tandem.views.measures.approx_count_distinct import LG_K
from tandem.views.source.offset_ranges import EMPTY, Ranges
from tandem.views.view import View, approximations
from tests.samples import SAMPLES, table
from tests.views.kernel.test_fold_edges import NOON, answers, events

SPARK_COUPONS = [
    ("i", 0, "cbd7c204"),
    ("i", 1, "2bf2fb06"),
    ("i", -1, "d964e70b"),
    ("i", 2**63 - 1, "ffbab40d"),
    ("i", -(2**63), "7519c20c"),
    ("s", "a", "2f823b04"),
    ("s", "ä", "9fd52f09"),
    ("s", "🙂", "5e89ec04"),
    ("s", "a\0b", "7d7df606"),
    ("s", "a longer text than sixteen bytes", "706ffe09"),
    ("b", b"a", "2f823b04"),
    ("b", b"\xff", "2e01aa06"),
    ("b", b"\x00", "a886d01f"),
    ("b", b"\xc3\x28", "ae687907"),
    ("b", b"\xf0" * 16, "03907b0b"),
    ("b", b"\x80" * 15, "06154f14"),
    ("b", bytes(range(128, 168)), "aad0fd06"),
]
"""What hll_sketch_agg(x, 12) of Spark 4.2.0 stored for one value: the sketch's only coupon."""


def states(measure: Measure, *rows: dict[str, Any]) -> list[bytes | None]:
    found: list[bytes | None] = partial(View(SAMPLES, measures={"m": measure}), events(*rows), EMPTY).states["m"].to_pylist()
    return found


@pytest.mark.parametrize(("name", "value", "coupon"), SPARK_COUPONS)
def test_values_are_hashed_as_spark_hashes_them(name: str, value: Any, coupon: str) -> None:
    (sketch,) = states(approx_count_distinct(name), {name: value})
    assert sketch is not None
    assert sketch[-4:].hex() == coupon
    assert datasketches.hll_sketch.deserialize(sketch).lg_config_k == LG_K


def test_texts_and_bytes_beside_bytes_that_are_no_text() -> None:
    values = [bytes([n, n + 1]) for n in range(0, 255, 5)]
    (row,) = answers(View(SAMPLES, measures={"different": approx_count_distinct("b")}), *({"b": value} for value in values))
    assert row["different"] == len(values)


def test_the_estimate_is_the_same_for_every_split_and_near_the_truth() -> None:
    view = View(SAMPLES, measures={"different": approx_count_distinct("i")})
    (error,) = [approximation.error for approximation in approximations(view).values()]
    assert error is not None
    for number in (3000, 50_000):
        whole = folded(view, number, [number])
        for cuts in ([number // 2, number], [1, 2, number // 3, number], [number // 5 * n for n in range(1, 6)]):
            assert present(view, folded(view, number, cuts)).equals(present(view, whole))
        (estimate,) = present(view, whole)["different"].to_pylist()
        assert abs(estimate - number) <= 2 * error * number


def folded(view: View, number: int, cuts: list[int]) -> Partial:
    """The integers below `number`, folded in pieces that end at the cuts."""
    base = table([{"at": NOON, "i": 0, "f": 0.0}])
    pieces = []
    for start, to in zip([0, *cuts[:-1]], cuts, strict=True):
        values = pa.array(np.arange(start, to))
        rows = pa.table({"at": pa.repeat(base["at"][0], to - start), "i": values, "f": values.cast(pa.float64())})
        pieces.append(partial(view, rows, Ranges.of({("topic", 0): (start, to)})))
    return merge(view, pieces)


def test_quantiles_are_within_their_rank_error_after_many_merges() -> None:
    view = View(SAMPLES, measures={"q": approx_quantiles("f", (0.01, 0.5, 0.99))})
    (approximation,) = approximations(view).values()
    assert approximation.error is not None
    number = 20_000
    (row,) = present(view, folded(view, number, [number // 50 * n for n in range(1, 51)])).to_pylist()
    for fraction, value in row["q"].items():
        # Five times the error that holds with 99 %: a test that throws dice may not fail by chance.
        assert abs(value / number - float(fraction)) <= 5 * approximation.error


def test_sketches_keep_the_form_that_spark_reads() -> None:
    (hll,) = states(approx_count_distinct("i"), *({"i": n} for n in range(1000)))
    (kll,) = states(approx_quantiles("f", (0.5,)), *({"f": float(n)} for n in range(1000)))
    assert datasketches.hll_sketch.deserialize(hll).tgt_type == datasketches.tgt_hll_type.HLL_8
    assert datasketches.kll_doubles_sketch.deserialize(kll).n == 1000
