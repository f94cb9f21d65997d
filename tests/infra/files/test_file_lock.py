"""One holder at a time: a second one waits or fails at once; the lock ends with its block, and its file stays."""

from pathlib import Path
from threading import Event, Thread

import pytest

from tandem.infra.files import file_lock


def test_a_second_holder_is_refused_or_waits(tmp_path: Path) -> None:
    path, entered = tmp_path / "lock", Event()

    def second() -> None:
        with file_lock.held(path):
            entered.set()

    with file_lock.held(path):
        with pytest.raises(BlockingIOError), file_lock.held(path, wait=False):
            pass
        waiting = Thread(target=second)
        waiting.start()
        assert not entered.wait(0.2)
    waiting.join()
    assert entered.is_set()
    with file_lock.held(path, wait=False):
        assert path.exists()


def test_an_error_in_the_block_ends_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="inside"), file_lock.held(tmp_path / "lock"):
        raise ValueError("inside")
    with file_lock.held(tmp_path / "lock", wait=False):
        pass
