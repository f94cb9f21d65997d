"""Both engines read each other's tables, and Spark's transaction versions are the archive's progress."""

import pytest
from pyspark.sql import SparkSession

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delete_table_files import checkpoint
from tandem.ledger.log.archive_runs import APP_ID, ArchiveLedger, ArchiveProgress
from tandem.ledger.log.positions import LOG_START
from tests.ledger.tiny import AT, SOURCE, at, claim, commit_each, first, merge

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_spark_reads_realtime_and_control_tables(tables: Tables, spark: SparkSession) -> None:
    first(tables)
    writer = claim(tables)
    commit_each(writer, *(at(n, n) for n in range(1, 5)))
    assert writer.compact(merge, live=at(0, 0), at=AT, fanout=3)
    handle = delta_tables.open_table(tables, tables.realtime(1, SOURCE))
    assert handle is not None
    checkpoint(handle)
    commit_each(writer, at(5, 5))
    realtime = spark.read.format("delta").load(tables.realtime(1, SOURCE))
    folds = {row["end_position"] for row in realtime.where("kind = 'fold'").collect()}
    assert '{"T":{"0":5,"1":5}}' in folds
    assert realtime.where("kind = 'fold'").count() < 5
    publications = spark.read.format("delta").load(tables.control("publications"))
    assert [(row["number"], row["kind"]) for row in publications.collect()] == [(1, "initial")]


def test_sparks_transaction_version_is_the_progress(tables: Tables, spark: SparkSession) -> None:
    ledger = ArchiveLedger(tables, SOURCE)
    run = ledger.intend(start=LOG_START, end=at(3, 1), by="test", at=AT)
    for address in (tables.archive(SOURCE), tables.events(SOURCE, "d1"), tables.quarantine(SOURCE, "d1")):
        assert ledger.progress("d1").least == 0
        rows = spark.range(2).coalesce(1).write.format("delta").mode("append")
        rows.option("txnAppId", APP_ID).option("txnVersion", run.number).save(address)
    assert ledger.progress("d1") == ArchiveProgress(run.number, run.number, run.number)
