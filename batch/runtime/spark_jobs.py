"""Run Python functions as Spark tasks, and report the failure of a task in one sentence.

Tasks are RDD tasks, not SQL: items in, small results out. Large data goes through files that tasks read and write themselves, so
there is nothing for a query planner to plan, and no row is converted between Python and the JVM.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from pyspark.sql import SparkSession

from tandem.infra.spark.errors import SPARK_ERRORS, sentence
from tandem.infra.spark.versions import compared
from tandem.views.errors import TandemError

Item = TypeVar("Item")
Result = TypeVar("Result")
Value = TypeVar("Value")


class TaskFailed(TandemError, code="task-failed"):
    """A Spark task failed; no table has the files that it wrote."""


def each(session: SparkSession, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The results of `work` for each item, one task each, in the order of the items. Raises TaskFailed."""
    if not items:
        return []
    return _collected(lambda: session.sparkContext.parallelize(items, len(items)).map(compared(work)).collect())


def each_then(
    session: SparkSession,
    work: Callable[[Item], Iterable[tuple[int, Value]]],
    gather: Callable[[Iterator[Value]], Iterable[Result]],
    items: Sequence[Item],
    buckets: int,
) -> list[Result]:
    """One task per item returns (bucket, value) pairs, then one task per bucket gathers its values. Raises TaskFailed."""
    if not items:
        return []
    pairs = session.sparkContext.parallelize(items, len(items)).flatMap(compared(work))
    return _collected(pairs.partitionBy(buckets, int).mapPartitions(compared(partial(_gathered, gather))).collect)


def _gathered(gather: Callable[[Iterator[Value]], Iterable[Result]], pairs: Iterator[tuple[int, Value]]) -> Iterable[Result]:
    return gather(value for _, value in pairs)


def _collected(collect: Callable[[], list[Result]]) -> list[Result]:
    try:
        return collect()
    except SPARK_ERRORS as error:
        raise TaskFailed(sentence(error)) from error
