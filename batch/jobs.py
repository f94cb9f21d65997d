"""Run Python functions as Spark tasks, and say in one sentence what went wrong in one.

Tasks are RDD tasks, not SQL: items in, small results out. What is large goes through files that tasks read and write
themselves, so there is nothing for a query planner to plan, and no row is converted between Python and the JVM.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from views.errors import TandemError

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value")


class TaskFailed(TandemError):
    """A Spark task raised; what it had written is not part of any table."""


def each(session: SparkSession, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results of `work` for every item, one task each, in the order of the items. Raises TaskFailed."""
    if not items:
        return []
    return _collected(lambda: session.sparkContext.parallelize(items, len(items)).map(work).collect())


def each_then(
    session: SparkSession,
    work: Callable[[Item], Iterable[tuple[int, Value]]],
    gather: Callable[[Iterator[Value]], Iterable[Result]],
    items: Sequence[Item],
    buckets: int,
) -> list[Result]:
    """One task per item gives (bucket, value) pairs, then one task per bucket gathers its values. Raises TaskFailed."""
    if not items:
        return []
    pairs = session.sparkContext.parallelize(items, len(items)).flatMap(work)
    return _collected(pairs.partitionBy(buckets, int).mapPartitions(partial(_gathered, gather)).collect)


def _gathered(gather: Callable[[Iterator[Value]], Iterable[Result]], pairs: Iterator[tuple[int, Value]]) -> Iterable[Result]:
    return gather(value for _, value in pairs)


def _collected(collect: Callable[[], list[Result]]) -> list[Result]:
    try:
        return collect()
    except Py4JJavaError as error:
        raise TaskFailed(sentence(str(error.java_exception.getMessage()))) from error


def sentence(message: str) -> str:
    """What the Python exception in a Spark message said, else the message's first line."""
    lines = message.splitlines()
    if "Traceback (most recent call last):" in message:
        start = max(index for index, line in enumerate(lines) if line.strip().endswith("Traceback (most recent call last):"))
        raised = next((line for line in lines[start + 1 :] if line and not line[0].isspace()), "")
        name, _, said = raised.partition(": ")
        if said:
            return said if name.startswith(("batch.", "ledger.", "views.")) else f"{name.rpartition('.')[2]}: {said}"
    return next((line.strip() for line in lines if line.strip()), "a Spark task failed")
