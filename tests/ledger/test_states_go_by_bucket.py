"""States of one key meet in one bucket, and many keys are spread over all of them."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.stored_states import by_bucket
from tandem.views.arrow.arrays import from_ipc


@given(st.lists(st.tuples(st.text(max_size=2) | st.none(), st.integers(0, 3))), st.integers(1, 5), st.booleans())
def test_each_state_is_in_one_bucket_with_all_states_of_its_key(
    rows: list[tuple[str | None, int]],
    buckets: int,
    keyed: bool,  # noqa: FBT001  drawn
) -> None:
    states = pa.table(
        {"name": pa.array([name for name, _ in rows], pa.string()), "n": pa.array([n for _, n in rows], pa.int64())}
    )
    found = {bucket: from_ipc(each).to_pylist() for bucket, each in by_bucket(states, ["name"] if keyed else [], buckets)}
    assert all(0 <= bucket < buckets for bucket in found)
    assert sorted(map(repr, (row for each in found.values() for row in each))) == sorted(map(repr, states.to_pylist()))
    for name in {name for name, _ in rows}:
        assert sum(any(row["name"] == name for row in each) for each in found.values()) == 1
    assert keyed or len(found) <= 1, "without a key all may have to do with each other"


def test_many_keys_are_spread_over_the_buckets() -> None:
    states = pa.table({"name": [str(number) for number in range(400)]})
    sizes = [from_ipc(each).num_rows for _, each in by_bucket(states, ["name"], 4)]
    assert len(sizes) == 4
    assert min(sizes) > 50
