"""The daemon of Python workers: between two tasks no collection visits the modules that a task has imported."""

import gc
import socket
import sys
import weakref
from collections.abc import Iterator
from types import ModuleType

import pytest

from tandem.infra.spark.worker_daemon import sparing_imports

NAME = "imported_by_a_task"


class Cycle:
    """An object that only a collection frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.unfreeze()
    sys.modules.pop(NAME, None)


def test_what_a_task_imports_is_not_visited_again_and_its_garbage_is_collected() -> None:
    left: list[weakref.ref[Cycle]] = []

    def task(_: socket.socket, authenticated: bool) -> int:  # noqa: FBT001 - as PySpark calls it
        sys.modules[NAME] = ModuleType(NAME)
        left.append(weakref.ref(Cycle()))
        return 7 if authenticated else 0

    work, frozen = sparing_imports(task), gc.get_freeze_count()
    with socket.socket() as connection:
        assert work(connection, True) == 7
        assert left[0]() is None
        first = gc.get_freeze_count()
        assert work(connection, False) == 0
        gc.collect()
        assert left[1]() is None
        assert frozen < first >= gc.get_freeze_count()
