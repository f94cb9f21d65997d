"""A lock on a file that Spark's JVM holds, so that it is free only when no process of a run can write any more."""

from functools import partial
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tandem.infra.spark.errors import sentence
from tandem.views.errors import TandemError

_PREFIX: Final = "tandem.lock."


def try_lock(spark: SparkSession, path: Path) -> bool:
    """Take the operating system's lock on a file for as long as this session's JVM lives; False if another process has it.

    The JVM outlives a killed Python driver briefly and may still write, so a lock of the driver would be released too early.
    A second call in one JVM returns True. Raises TandemError if the file cannot be locked.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - the only way to the JVM that py4j offers
    path.parent.mkdir(parents=True, exist_ok=True)
    held = jvm.java.lang.System.getProperties()
    name = f"{_PREFIX}{path.resolve()}"
    if held.get(name) is not None:
        return True
    try:
        channel = jvm.java.io.RandomAccessFile(str(path), "rw").getChannel()
        lock = channel.tryLock()
    except Py4JJavaError as error:
        raise TandemError(f"cannot use the lock {path}: {sentence(error)}") from error
    if lock is None:
        channel.close()
        return False
    # A JVM property keeps lock and channel from being collected, which would release it.
    held.put(name, lock)
    return True


def locker(spark: SparkSession) -> "partial[bool]":
    """`try_lock` of this session, for tandem.ledger.delta.one_writer.write_locks."""
    return partial(try_lock, spark)
