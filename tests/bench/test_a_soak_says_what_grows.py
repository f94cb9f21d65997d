"""A short soak has answers of every kind and commits; growth is judged by the quarters of its time."""

from dataclasses import replace
from pathlib import Path

import pytest

from tandem.bench.soak import report
from tandem.bench.soak.load import Soak, Soaked, SoakSample, flatness, soak

MIB = 2**20


def samples(rss: list[int], handles: list[int] | None = None, threads: list[int] | None = None) -> list[SoakSample]:
    handles, threads = handles or [50] * len(rss), threads or [20] * len(rss)
    return [SoakSample(float(n + 1), size * MIB, handles[n], threads[n]) for n, size in enumerate(rss)]


@pytest.mark.parametrize(
    ("rss", "flat"),
    [
        ([100, 300, 400, 400, 401, 402, 400, 401], True),  # it warms up in the first quarter
        ([400, 400, 400, 400, 430, 430, 430, 430], True),  # by less than a tenth
        ([400, 400, 400, 400, 450, 480, 500, 520], False),
        ([100, 100, 100, 100, 120, 120, 125, 125], True),  # a few MiB, though a quarter more
    ],
)
def test_memory_is_flat_if_its_last_quarter_equals_its_second(rss: list[int], flat: bool) -> None:  # noqa: FBT001
    memory, handles, threads = flatness(samples(rss))
    assert (memory.flat, handles.flat, threads.flat) == (flat, True, True)


def test_a_handle_a_second_is_a_leak() -> None:
    memory, handles, _ = flatness(samples([400] * 80, [50 + n for n in range(80)]))
    assert (memory.flat, handles.flat) == (True, False)
    assert handles.slope == pytest.approx(60)


@pytest.mark.parametrize(("growth", "flat"), [(2, True), (10, False)])
def test_a_filling_thread_pool_is_not_a_leak(growth: int, flat: bool) -> None:  # noqa: FBT001
    _, _, threads = flatness(samples([400] * 40, threads=[40 + growth * n for n in range(40)]))
    assert threads.flat == flat


@pytest.mark.slow
def test_a_short_soak_sends_every_kind_of_request(tmp_path: Path) -> None:
    said: list[str] = []
    found = soak(tmp_path / "project", Soak(12.0, keys=500, publish_every=3), said.append)
    document = report.document(found)
    assert set(document["answers"]) == {"rows", "row", "lookup", "sql", "changes"}
    assert all(statuses.get("200") for statuses in document["answers"].values()), document["answers"]
    assert document["errors"] == 0
    assert document["commits"] > 3
    assert [one["what"] for one in document["figures"]] == ["bytes", "handles", "threads"]
    assert len(list(report.tables(found))) == 3
    broken = replace(found, answers={"rows": {200: 5, 500: 2, 0: 1}})
    assert report.errors(broken) == 3
    assert isinstance(broken, Soaked)
