"""Of many writers that put one name if it is absent, exactly one is told that it did, on each server that tests use.

Commits rest on this promise of the store, so a server that broke it would make each test of commits worthless.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from tandem.cli.demo.s3_server import bucket
from tandem.infra.storage.object_store import ObjectStore
from tests.infra.storage.azure import azure_container
from tests.infra.storage.go_s3 import go_bucket
from tests.infra.storage.google import google_bucket
from tests.infra.storage.quick_s3 import quick_bucket
from tests.infra.storage.s3 import Faults, a_bucket


def one_winner(of: Callable[..., Any], writers: int, rounds: int) -> None:
    """Each writer has a client of its own; they meet before each round."""
    proxy = Faults() if of in (bucket, quick_bucket) else None
    with a_bucket(proxy, of=of) as (url, options), ThreadPoolExecutor(writers) as threads:
        together = Barrier(writers, timeout=120)

        def rounds_of(writer: int) -> list[bool]:
            storage, won = ObjectStore(url, options), []
            for number in range(rounds):
                together.wait()
                won.append(storage.put_if_absent(f"log/{number:020}.json", f"of {writer}".encode()))
            return won

        told = list(threads.map(rounds_of, range(writers)))
        storage = ObjectStore(url, options)
        for number in range(rounds):
            (winner,) = [writer for writer in range(writers) if told[writer][number]]
            with storage.open(f"log/{number:020}.json") as file:
                assert file.read() == f"of {winner}".encode()


@pytest.mark.parametrize("of", [bucket, quick_bucket])
def test_one_of_8_writers_wins_each_round(of: Callable[..., Any]) -> None:
    one_winner(of, 8, 20)


@pytest.mark.slow
@pytest.mark.parametrize("of", [bucket, quick_bucket, go_bucket])
def test_one_of_64_writers_wins_each_of_200_rounds(of: Callable[..., Any]) -> None:
    one_winner(of, 64, 200)


@pytest.mark.slow
@pytest.mark.parametrize("of", [azure_container, google_bucket])
def test_one_of_16_writers_wins_each_of_50_rounds(of: Callable[..., Any]) -> None:
    one_winner(of, 16, 50)
