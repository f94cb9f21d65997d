"""A lock on a file that Spark's JVM holds, so that it is free only when no process of a run can write any more."""

from functools import partial
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from infra.spark.errors import sentence
from views.errors import TandemError

SESSION_BYTES: Final = 1
"""How many of the file's bytes the JVM of a kept session locks; its command locks the next one."""
_PREFIX: Final = "tandem.lock."


def try_lock(spark: SparkSession, path: Path, *, half: bool = False) -> bool:
    """Take the operating system's lock on a file for as long as this session's JVM lives; False if another process has it.

    The JVM outlives a killed Python driver briefly and may still write, so a lock of the driver would be released too early. With
    `half` it locks only the first `SESSION_BYTES`, which excludes all who lock the whole file. A second call in one JVM returns
    True. Raises TandemError if the file cannot be locked.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - the only way to the JVM that py4j offers
    path.parent.mkdir(parents=True, exist_ok=True)
    held = jvm.java.lang.System.getProperties()
    name = f"{_PREFIX}{path.resolve()}"
    if held.get(name) is not None:
        return True
    try:
        channel = jvm.java.io.RandomAccessFile(str(path), "rw").getChannel()
        lock = channel.tryLock(0, SESSION_BYTES, False) if half else channel.tryLock()
    except Py4JJavaError as error:
        raise TandemError(f"cannot use the lock {path}: {sentence(error)}") from error
    if lock is None:
        channel.close()
        return False
    # A JVM property keeps lock and channel from being collected, which would release it.
    held.put(name, lock)
    return True


def release_all(spark: SparkSession) -> None:
    """Release all locks that `try_lock` took in this session's JVM, which lives on."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - see above
    held = jvm.java.lang.System.getProperties()
    for name in [name for name in list(held.keySet()) if name.startswith(_PREFIX)]:
        held.remove(name).channel().close()


def locker(spark: SparkSession) -> "partial[bool]":
    """`try_lock` of this session, for ledger.delta.locks."""
    return partial(try_lock, spark)
