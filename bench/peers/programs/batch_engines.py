"""The view recomputed from Parquet files by an engine in process. Runs in the peers' environment: ENGINE CONFIG.

The file CONFIG holds JSON: `files`, `output`, `cores` and `repeat`. The output is a Parquet file with path, w (the minute as a
timestamp), n, b and m. It prints `RUN START END`, in seconds since the epoch, for each repetition. There are `repeat` of them, or
more in three seconds, so that samples of CPU and memory meet some. Events of equal id are counted once.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LEAST_S = 3.0


def duckdb_engine(config: dict[str, Any]) -> Callable[[], object]:
    """DuckDB: DISTINCT ON, then GROUP BY; its guides name neither a setting nor an index for this."""
    import duckdb  # noqa: PLC0415 - one engine a process

    connection = duckdb.connect()
    connection.execute(f"SET threads = {config['cores']}; SET TimeZone = 'UTC'; SET enable_progress_bar = false")
    query = f"""
        SELECT path, date_trunc('minute', "at") AS w, count(*) AS n, sum(bytes)::BIGINT AS b, max(ms) AS m
        FROM (SELECT DISTINCT ON (id) id, "at", path, bytes, ms FROM read_parquet({config["files"]}))
        GROUP BY ALL
    """
    return lambda: connection.execute(f"COPY ({query}) TO '{config['output']}' (FORMAT parquet)")


def polars_engine(config: dict[str, Any]) -> Callable[[], object]:
    """Polars: a lazy query on its streaming engine."""
    os.environ["POLARS_MAX_THREADS"] = str(config["cores"])
    import polars as pl  # noqa: PLC0415 - one engine a process

    view = (
        pl.scan_parquet(config["files"])
        .select("id", "at", "path", "bytes", "ms")
        .unique(subset=["id"], keep="any")
        .group_by("path", pl.col("at").dt.truncate("1m").alias("w"))
        .agg(n=pl.len().cast(pl.Int64), b=pl.col("bytes").sum(), m=pl.col("ms").max())
    )
    return lambda: view.collect(engine="streaming").write_parquet(config["output"])


def chdb_engine(config: dict[str, Any]) -> Callable[[], object]:
    """chdb, which is ClickHouse in process: LIMIT 1 BY needs a sort, so any() by id is what its documentation advises."""
    from chdb import session  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - one engine a process

    connection = session.Session()
    source = " UNION ALL ".join(f"SELECT id, at, path, bytes, ms FROM file('{name}', Parquet)" for name in config["files"])
    query = f"""
        INSERT INTO FUNCTION file('{config["output"]}', Parquet)
        SELECT path, toStartOfMinute(at) AS w, toInt64(count()) AS n, toInt64(sum(bytes)) AS b, max(ms) AS m
        FROM (SELECT any(at) AS at, any(path) AS path, any(bytes) AS bytes, any(ms) AS ms FROM ({source}) GROUP BY id)
        GROUP BY path, w
        SETTINGS engine_file_truncate_on_insert = 1, max_threads = {config["cores"]}
    """
    return lambda: connection.query(query)


ENGINES = {"duckdb": duckdb_engine, "polars": polars_engine, "chdb": chdb_engine}


def main() -> None:
    """Recompute as often as the configuration says, or longer."""
    config = json.loads(Path(sys.argv[2]).read_text("utf-8"))
    recompute = ENGINES[sys.argv[1]](config)
    done, end = 0, time.time() + LEAST_S
    while done < config["repeat"] or time.time() < end:
        start = time.time()
        recompute()
        print("RUN", start, time.time(), flush=True)
        done += 1


if __name__ == "__main__":
    main()
