"""The cluster of `tandem bench scale`: the demo's standalone master and workers, with tables in the demo's own bucket."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import httpx
import psutil

from tandem.bench.commands import BenchProject
from tandem.bench.scale.cpu_quota import quotas
from tandem.bench.scale.ground import Ground
from tandem.cli.demo.bucket import own_bucket
from tandem.cli.demo.s3_server import COUNTS
from tandem.cli.demo.spark_cluster import EXECUTOR, own_cluster

_SERVER = "tandem.cli.demo.s3_server"
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


@contextmanager
def on_cluster(place: BenchProject, environ: Mapping[str, str], broker: int) -> Iterator[Ground]:
    """The ground until the block ends; `broker` is the process id of the place's broker. Raises TandemError."""
    with ExitStack() as around:
        bucket = dict(around.enter_context(own_bucket(environ, place.folder / "logs" / "s3.log")))
        credentials = {name: bucket[name] for name in _CREDENTIALS}
        cluster = around.enter_context(own_cluster(environ, place.folder, place.folder, credentials))
        workers = [worker.pid for worker in cluster.workers]
        (store,) = (child.pid for child in psutil.Process().children() if _SERVER in child.cmdline())
        bounds = around.enter_context(quotas(f"tandem-bench-{os.getpid()}"))
        counts = f"{json.loads(bucket['TANDEM_STORAGE_OPTIONS'])['aws_endpoint_url']}{COUNTS}"
        yield Ground(
            place,
            {**bucket, **cluster.settings},
            workers,
            lambda: [
                child.pid for worker in workers for child in psutil.Process(worker).children(recursive=True) if _executes(child)
            ],
            {"store": store, "broker": broker},
            bounds,
            lambda: dict(httpx.get(counts).raise_for_status().json()),
        )


def _executes(process: psutil.Process) -> bool:
    """Whether it is the JVM of an executor."""
    try:
        return EXECUTOR in process.cmdline()
    except psutil.Error:  # it has ended
        return False
