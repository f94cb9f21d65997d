"""The benchmark of duplicates runs the layers' own code, and reports the bytes of each identity."""

import pytest

from tandem.bench import duplicates


def test_a_dedup_window_takes_32_bytes_for_each_key() -> None:
    figure = duplicates.dedup_window(30_000)
    assert (figure.size, figure.steady) == (30_000, 32 * 30_000)
    (row,) = duplicates.document([figure])["figures"]
    assert row["peak_bytes_each"] == round(figure.peak / 30_000, 1)


@pytest.mark.parametrize("step", [duplicates.hashes, duplicates.one_hash, duplicates.suspects, duplicates.one_event])
def test_every_step_of_the_batch_search_is_done(step: object) -> None:
    figure = step(40_000)  # type: ignore[operator]
    assert figure.size == 40_000
    assert figure.seconds > 0
    assert duplicates.table([figure]).row_count == 1
