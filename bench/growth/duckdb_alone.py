"""The same recompute by DuckDB, from the same Parquet files: it neither audits nor publishes.

It runs in a process of its own, so that its memory is not counted as Tandem's.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Final

from tandem.bench import silent_duckdb

_ASKED: Final = """
COPY (
    SELECT sensor, epoch_ms("at") // 86400000 AS day, count(*) AS n, sum(value)::BIGINT AS total, max(value) AS largest
    FROM (SELECT DISTINCT ON (id) id, "at", sensor, value FROM read_parquet({files}))
    GROUP BY ALL
) TO '{answer}' (FORMAT parquet)
"""


def recomputed(files: Sequence[str], answer: Path, *, cores: int, repeat: int) -> tuple[float, int]:
    """The median of the seconds, after a first time that does not count, and how many events the answer counts."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_recomputed, list(files), str(answer), cores, repeat).result()


def _recomputed(files: list[str], answer: str, cores: int, repeat: int) -> tuple[float, int]:
    spans = []
    with silent_duckdb.connect() as engine:
        engine.execute(f"SET threads = {cores}; SET TimeZone = 'UTC'")
        for _ in range(1 + repeat):
            start = time.perf_counter()
            engine.execute(_ASKED.format(files=files, answer=answer))
            spans.append(time.perf_counter() - start)
        counted = engine.execute("SELECT sum(n)::BIGINT FROM read_parquet($answer)", {"answer": answer}).fetchone()
    assert counted is not None, "a sum is one row"
    return median(spans[1:]), int(counted[0])
