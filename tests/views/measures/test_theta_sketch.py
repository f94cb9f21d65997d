"""Theta sketches: the same bytes for every split and order, within their error, and right about overlaps."""

import random
from collections.abc import Iterable
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pytest

from tandem.views.errors import TandemError
from tandem.views.kernel.kernel import Partial, merge, partial, present
from tandem.views.measures import theta_sketch
from tandem.views.measures.states.hashing import one_value_theta
from tandem.views.measures.theta_sketch import LG_K, theta_difference, theta_intersection, theta_union
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.view import View, approximations
from tests.samples import SAMPLES, table
from tests.views.kernel.test_fold_edges import NOON, events
from tests.views.measures.test_sketches import SPARK_COUPONS

VIEW = View(SAMPLES, measures={"m": theta_sketch("i")})
BASE = table([{"at": NOON}])


def folded(values: Iterable[int]) -> Partial:
    """The partial of events with these values of the field i."""
    numbers = pa.array(np.fromiter(values, np.int64))
    return partial(VIEW, pa.table({"at": pa.repeat(BASE["at"][0], len(numbers)), "i": numbers}), EMPTY)


def state(values: Iterable[int]) -> bytes:
    (found,) = folded(values).states["m"].to_pylist()
    assert isinstance(found, bytes)
    return found


@pytest.mark.parametrize("number", [1, 4096, 4097, 5000, 7680, 8192, 100_000])
def test_states_are_the_same_bytes_for_every_split_and_order(number: int) -> None:
    whole = folded(range(number))
    for seed in range(3):
        dice = random.Random(seed)
        values = dice.sample(range(number), number)
        cuts = sorted(dice.choices(range(number + 1), k=4))
        pieces = [folded(values[start:to]) for start, to in zip([0, *cuts], [*cuts, number], strict=True)]
        nested = merge(VIEW, [merge(VIEW, pieces[:2]), pieces[4], merge(VIEW, pieces[2:4])])
        assert merge(VIEW, pieces).states.equals(whole.states)
        assert nested.states.equals(whole.states)
        assert merge(VIEW, [whole, *pieces]).states.equals(whole.states)
    (approximation,) = approximations(VIEW).values()
    assert approximation.error is not None
    (estimate,) = present(VIEW, whole)["m"].to_pylist()
    assert abs(estimate - number) <= (0 if number <= 2**LG_K else 1.5 * approximation.error * number)


def test_the_error_is_that_of_the_sketch() -> None:
    (approximation,) = approximations(VIEW).values()
    sketch = datasketches.compact_theta_sketch.deserialize(state(range(1_000_000)))
    spread = (sketch.get_upper_bound(2) - sketch.get_lower_bound(2)) / 2 / sketch.get_estimate()
    assert (approximation.kind, approximation.confidence) == ("theta", 0.954)
    assert approximation.error == pytest.approx(spread, rel=0.02)


@pytest.mark.parametrize(("name", "value", "coupon"), SPARK_COUPONS)
def test_values_are_hashed_as_spark_hashes_them(name: str, value: Any, coupon: str) -> None:
    """An HLL coupon holds the 26 lower bits of the hash, of which a theta sketch keeps all but the lowest."""
    (sketch,) = partial(View(SAMPLES, measures={"m": theta_sketch(name)}), events({name: value}), EMPTY).states["m"].to_pylist()
    (hashed,) = datasketches.compact_theta_sketch.deserialize(sketch)
    mask = (1 << 25) - 1
    assert hashed & mask == int.from_bytes(bytes.fromhex(coupon), "little") >> 1 & mask


@pytest.mark.parametrize("text", ["a", "ä", "a longer text than sixteen bytes"])
def test_a_sketch_of_one_value_is_written_as_the_library_writes_it(text: str) -> None:
    sketch = datasketches.update_theta_sketch(LG_K)
    sketch.update(text)
    assert one_value_theta(text.encode()) == sketch.compact().serialize()


@pytest.mark.parametrize("common", [0, 100, 5000, 10_000])
def test_overlaps_lie_within_their_bounds(common: int) -> None:
    keys = 10_000
    one, other = state(range(keys)), state(range(keys - common, 2 * keys - common))
    for found, truth in (
        (theta_union([one, other]), 2 * keys - common),
        (theta_intersection(one, other), common),
        (theta_difference(one, other), keys - common),
    ):
        assert found.lower <= truth <= found.upper
        assert found.lower <= found.estimate <= found.upper
        assert found.upper - found.lower <= 0.15 * keys


def test_overlaps_of_few_values_are_exact() -> None:
    one, other, third = state(range(3000)), state(range(2000, 4000)), state(range(2500, 2600))
    for found, truth in (
        (theta_union([one, other, None]), 4000),
        (theta_intersection(one, other), 1000),
        (theta_intersection(one, other, third), 100),
        (theta_difference(one, other), 2000),
        (theta_difference(theta_union([one, other]).state, third), 3900),
        (theta_intersection(one, None), 0),
        (theta_difference(None, one), 0),
        (theta_difference(one, None), 3000),
        (theta_union([]), 0),
    ):
        assert (found.estimate, found.lower, found.upper) == (truth, truth, truth)


def test_the_union_is_what_merge_gives() -> None:
    pieces = [range(5000), range(3000, 9000)]
    (merged,) = merge(VIEW, [folded(piece) for piece in pieces]).states["m"].to_pylist()
    assert theta_union([state(piece) for piece in pieces]).state == merged


def test_bytes_that_are_no_sketch_are_refused_in_one_sentence() -> None:
    with pytest.raises(TandemError, match=r"b'junk'\.\.\. \(4 bytes\) is not a theta sketch"):
        theta_union([b"junk"])
