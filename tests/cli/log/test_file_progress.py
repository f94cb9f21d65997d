"""Reading files prints share, rate and time left: a line at intervals without a terminal, nothing if the work is short."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.cli.command.call import Call
from tandem.cli.log.file_progress import bytes_to_read, file_progress, sentence

CALL = Call(Path(), json=True, debug=False, environ={})


@pytest.mark.parametrize(
    ("records", "done", "total", "seconds", "said"),
    [
        (0, 0, 100, 0.0, "0 records, 0 %"),
        (1_200_000, 25, 100, 10.0, "1,200,000 records, 25 %, 120,000 a second, 30 s left"),
        (10, 1, 100, 100.0, "10 records, 1 %, 0 a second, 2 h 45 min left"),
        (10, 10, 100, 20.0, "10 records, 10 %, 0 a second, 3 min left"),
        (10, 120, 100, 20.0, "10 records, 100 %, 0 a second, 0 s left"),
        (5000, 10, None, 2.0, "5,000 records, 2,500 a second"),
        (5, 0, 0, 0.5, "5 records, 10 a second"),
    ],
)
def test_a_sentence_has_what_is_known(records: int, done: int, total: int | None, seconds: float, said: str) -> None:
    assert sentence(records, done, total, seconds) == said


def clock(step: float) -> Iterator[float]:
    """A clock that advances by a step at each look."""
    time = 0.0
    while True:
        yield time
        time += step


def test_a_line_is_printed_at_intervals(capsys: pytest.CaptureFixture[str]) -> None:
    for step, some in ((5.0, True), (0.001, False)):
        ticks = clock(step)
        with file_progress(CALL, 8_000_000, now=lambda ticks=ticks: next(ticks)) as advance:
            for number in range(1, 4001):
                advance(number, 1000)
        said = capsys.readouterr().err.splitlines()
        assert bool(said) == some
        assert all(" %, " in line and line.endswith(" left") for line in said)


def test_a_packed_file_has_no_share(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"12345")
    (tmp_path / "b.csv.gz").write_bytes(b"1")
    assert bytes_to_read([tmp_path / "a.csv", tmp_path / "a.csv"]) == 10
    assert bytes_to_read([tmp_path / "a.csv", tmp_path / "b.csv.gz"]) is None
    assert bytes_to_read([Path("-")]) is None
