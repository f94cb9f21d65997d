"""A micro-batch that Spark folds: every duplicate is dropped and every record accounted for, whatever the tasks read."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tandem.ledger.log.fetch_checks import refuse_unclosed
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.dedup.within_task import Identities
from tandem.speed.micro_batch.fold import MicroBatchResult, RangeMismatch, Workers, fold_records
from tandem.speed.micro_batch.task import Task
from tandem.views.arrow.arrays import from_ipc
from tandem.views.kernel.kernel import Partial, present
from tandem.views.project.project import Project, load_files
from tandem.views.source.offset_ranges import EMPTY, Ranges
from tandem.views.source.source import RECORDS_SCHEMA
from tests.speed.sales import START, project_files, sale

FILES = project_files()
TASK = Task(FILES, "sales", {"per_minute": "f1", "per_shop": "f2"})
COLUMNS = ("topic_id", "partition", "offset", "timestamp", "timestamp_type", "value")


@pytest.fixture(scope="module")
def project() -> Project:
    return load_files(FILES)


@pytest.fixture(autouse=True)
def a_task_for_each_frame(spark: SparkSession) -> Iterator[None]:
    """Spark otherwise reads a union of frames of one partition each as one partition."""
    spark.conf.set("spark.sql.unionOutputPartitioning", "false")
    yield
    spark.conf.unset("spark.sql.unionOutputPartitioning")


def records(spark: SparkSession, *partitions: list[bytes], first: int = 0) -> DataFrame:
    """A data frame with one task for each list of values, at offsets from `first` on."""
    frames = []
    for number, values in enumerate(partitions):
        rows = [
            {"topic_id": "T", "partition": number, "offset": first + row, "timestamp": START, "timestamp_type": 0, "value": value}
            for row, value in enumerate(values)
        ]
        schema = pa.schema([RECORDS_SCHEMA.field(name) for name in COLUMNS])
        frames.append(spark.createDataFrame(pa.Table.from_pylist(rows, schema)).coalesce(1))
    united = frames[0]
    for frame in frames[1:]:
        united = united.union(frame)
    assert united.rdd.getNumPartitions() == len(partitions)
    return united


def spanning(*partitions: list[bytes], first: int = 0) -> Ranges:
    return Ranges.of({("T", number): (first, first + len(values)) for number, values in enumerate(partitions)})


def answers(project: Project, folded: MicroBatchResult, name: str, fingerprint: str) -> list[dict[str, object]]:
    view = project.views[name]
    rows = present(view, Partial(from_ipc(folded.partials[fingerprint]), EMPTY, {})).to_pylist()
    return sorted(rows, key=lambda row: (row["window_start"] or START, row["shop"]))


@pytest.mark.spark
def test_a_micro_batch_folds_every_view_in_one_job(spark: SparkSession, project: Project) -> None:
    partitions = [[sale(1, amount=5), b"broken", sale(2, seconds=60)], [sale(3, shop="b"), sale(4, seconds=61, amount=7)]]
    views = {"f1": project.views["per_minute"], "f2": project.views["per_shop"]}
    frame = records(spark, *partitions)
    spark.sparkContext.setJobGroup("one", "one micro-batch")
    folded = fold_records(frame, TASK, views, spanning(*partitions), DedupWindow(0), workers=Workers())
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("one")) == 1
    assert folded.counts.to_json() == {
        "events": 4, "quarantined": {"json": 1}, "holes": 0, "late": 0, "ahead": 0, "duplicates": 0, "conflicts": 0, "erased": 0,
        "others": 0, "further": 0, "off_calendar": 0, "skipped": 0, "rejected_events": 0, "rounded": 0,
    }  # fmt: skip
    assert [(row["shop"], row["n"], row["most"]) for row in answers(project, folded, "per_shop", "f2")] == [
        ("a", 3, 7),
        ("b", 1, 1),
    ]
    assert [(row["shop"], row["n"], row["sum"]) for row in answers(project, folded, "per_minute", "f1")] == [
        ("a", 1, 5), ("b", 1, 1), ("a", 2, 8),
    ]  # fmt: skip


@pytest.mark.spark
def test_one_job_whatever_the_duplicates(spark: SparkSession, project: Project) -> None:
    """Those of earlier micro-batches never take a second job; those across tasks only once, then tasks hand back their events."""
    views, task, workers = {"f2": project.views["per_shop"]}, Task(FILES, "sales", {"per_shop": "f2"}), Workers()
    strangers = np.random.default_rng(1).integers(0, 2**64, (20_000, 3), np.uint64)
    dedup_window = DedupWindow(600_000_000).extended(Identities(strangers, np.zeros(20_000, np.int64)), at=0, caught_up=0)
    first = 0
    for number, (partitions, counted, jobs) in enumerate(
        (
            ([[sale(1), sale(2)], [sale(3)]], 3, 1),
            ([[sale(3), sale(1)], [sale(2), sale(2)]], 0, 1),  # duplicates alone
            ([[sale(2), sale(4)], [sale(4), sale(5, amount=7)]], 2, 2),  # an event in both tasks
            ([[sale(6), sale(5)], [sale(6), sale(7, amount=9), sale(4)]], 2, 1),  # again
            ([[sale(8)], [sale(7)]], 1, 1),
            ([[sale(9)], [sale(9)]], 1, 2),  # the first such micro-batch after one without
        )
    ):
        spark.sparkContext.setJobGroup(f"batch {number}", "one micro-batch")
        frame, ranges = records(spark, *partitions, first=first), spanning(*partitions, first=first)
        folded = fold_records(frame, task, views, ranges, dedup_window, workers=workers)
        assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(f"batch {number}")) == jobs
        assert (folded.counts.events, folded.counts.duplicates) == (counted, sum(map(len, partitions)) - counted)
        rows = answers(project, folded, "per_shop", "f2")
        assert [row["n"] for row in rows] == [counted] * bool(counted)
        dedup_window, first = dedup_window.extended(folded.identities, at=0, caught_up=0), first + 3


@pytest.mark.spark
def test_duplicates_inside_one_value_are_dropped_by_their_index(spark: SparkSession) -> None:
    """By the task alone, across tasks and across micro-batches; each record closes the range once."""
    definitions = FILES["definitions.py"].replace(b'identity=("id",)', b'identity=("id",), max_events_per_record=3')
    files = FILES | {"definitions.py": definitions}
    project = load_files(files)
    task, views = Task(files, "sales", {"per_shop": "f2"}), {"f2": project.views["per_shop"]}

    def several(*numbers: int) -> bytes:
        return b"[%b]" % b",".join(sale(number, amount=number) for number in numbers)

    dedup_window = DedupWindow(600_000_000)
    for partitions, first, counted, dropped, too_long in (
        ([[several(1, 2, 1), several(2, 3)], [several(4, 1), several(1, 2, 3, 4)]], 0, 4, 3, 1),
        ([[several(3, 5, 5)], [several(6, 4), several(5, 6, 7)]], 2, 3, 5, 0),
    ):
        folded = fold_records(
            records(spark, *partitions, first=first),
            task,
            views,
            spanning(*partitions, first=first),
            dedup_window,
            workers=Workers(),
        )
        dedup_window = dedup_window.extended(folded.identities, at=0, caught_up=0)
        counts = folded.counts
        assert (counts.events, counts.duplicates, counts.holes) == (counted, dropped, 0)
        assert counts.quarantined == ({"length": too_long} if too_long else {})
        assert counts.records == sum(map(len, partitions)) - too_long
        refuse_unclosed(spanning(*partitions, first=first), counts)
        (row,) = answers(project, folded, "per_shop", "f2")
        assert row["n"] == counted


PREPARED = """
from datetime import datetime
import pyarrow.compute as pc
from tandem import Event, Source, View, count, total

class Sale(Event):
    id: int
    at: datetime
    shop: str
    amount: int

def each_letter(sales):
    shops = sales["shop"].combine_chunks()
    if pc.any(pc.equal(shops, "broken"), min_count=0).as_py():
        raise ValueError("a broken shop")
    letters = pc.split_pattern(pc.replace_substring_regex(shops, "(.)", "\\\\1,"), ",")
    made = sales.take(pc.list_parent_indices(letters)).append_column("letter", pc.list_flatten(letters))
    return made.filter(pc.not_equal(made["letter"], ""))

sales = Source(topic="sales", event=Sale, event_time="at", identity=("id",), prepare=each_letter)
per_shop = View(source=sales, keys={"shop": "letter"}, measures={"n": count(), "most": total("amount")})
SOURCES = (sales,)
VIEWS = (per_shop,)
"""


@pytest.mark.spark
def test_prepare_runs_after_duplicates_are_dropped(spark: SparkSession) -> None:
    """Counts are of events; the rows made of them are what views answer, and what fails is rejected alone."""
    files = {"definitions.py": PREPARED.encode(), "tandem.toml": b""}
    project = load_files(files)
    partitions = [[sale(1, shop="ab", amount=5), sale(2, shop="broken"), sale(1, shop="ab", amount=5)], [sale(3, shop="bb")]]
    task = Task(files, "sales", {"per_shop": "f2"})
    views = {"f2": project.views["per_shop"]}
    folded = fold_records(
        records(spark, *partitions), task, views, spanning(*partitions), DedupWindow(600_000_000), workers=Workers()
    )
    assert (folded.counts.events, folded.counts.duplicates) == (3, 1)
    assert folded.rejected == {"f2": {"prepare": 1}}
    rows = answers(project, folded, "per_shop", "f2")
    assert [(row["shop"], row["n"], row["most"]) for row in rows] == [("a", 1, 5), ("b", 3, 7)]


@pytest.mark.spark
def test_records_outside_the_plan_are_refused(spark: SparkSession, project: Project) -> None:
    views = {"f2": project.views["per_shop"]}
    task = Task(FILES, "sales", {"per_shop": "f2"})
    partitions = [[sale(1), sale(2)]]
    with pytest.raises(RangeMismatch, match=r"offsets 0 to 1 of partition 0 of topic T were read, but \[0, 1\) was planned"):
        fold_records(records(spark, *partitions), task, views, Ranges.of({("T", 0): (0, 1)}), DedupWindow(0), workers=Workers())
    holed = fold_records(
        records(spark, *partitions), task, views, Ranges.of({("T", 0): (0, 5)}), DedupWindow(0), workers=Workers()
    )
    assert holed.counts.holes == 3
