"""Rows of files with texts in quotes, and of files with other columns, are adopted as they are, or refused."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tandem.batch.adopt.table import CORRUPT, HistoryTable, NotAdopted
from tandem.infra.spark.errors import SPARK_ERRORS

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def rows(session: SparkSession, folder: Path) -> list[dict[str, Any]]:
    table = HistoryTable.of(folder)
    frame = table.rows(session, table.newer_files({})).drop("_file")
    return sorted((row.asDict() for row in frame.collect()), key=json.dumps)


def test_a_text_in_quotes_may_have_line_ends_and_quotes(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,note\n1,"two\nlines"\n2,"a ""word"", and more"\n3,"C:\\"\n')
    notes = {row["id"]: row["note"] for row in rows(spark, tmp_path)}
    assert notes == {"1": "two\nlines", "2": 'a "word", and more', "3": "C:\\"}


def test_a_row_of_another_width_than_the_header_keeps_its_text(spark: SparkSession, tmp_path: Path) -> None:
    """Also if a plan reads few of the columns."""
    (tmp_path / "a.csv").write_text('id,note\n1,a\n2\n3,b,extra\n4,"x\ny"\n5,"q""q",more\n6,\n')
    table = HistoryTable.of(tmp_path)
    frame = table.rows(spark, ["a.csv"])
    texts = [None, "2", "3,b,extra", None, '5,"q""q",more', None]
    assert [row[CORRUPT] for row in frame.select("id", "note", CORRUPT).collect()] == texts
    assert [row[CORRUPT] for row in frame.select("id", CORRUPT).collect()] == texts


def test_a_file_with_a_text_in_quotes_that_does_not_end_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Spark would read the file's other rows as a part of the text. Other files are read."""
    (tmp_path / "a.csv").write_text('id,note\n1,"two\nlines"\n')
    (tmp_path / "b.csv").write_text('id,note\n1,a\n2,"no end\n3,b\n4,c\n')
    with pytest.raises(NotAdopted, match=r"b\.csv: a text in quotes that begins in lines 3 to 5 has no end"):
        rows(spark, tmp_path)
    (tmp_path / "b.csv").unlink()
    assert [row["id"] for row in rows(spark, tmp_path)] == ["1"]


def test_files_of_csv_with_other_headers_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Spark would read the second file's prices as ids."""
    (tmp_path / "a.csv").write_text("id,price\n1,10\n")
    (tmp_path / "b.csv").write_text("price,id\n20,2\n")
    with pytest.raises(SPARK_ERRORS, match="CSV header"):
        rows(spark, tmp_path)


def test_a_column_of_some_files_of_parquet_is_read(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["1"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": ["2"], "tip": ["5"]}), tmp_path / "b.parquet")
    assert rows(spark, tmp_path) == [{"id": "1", "tip": None}, {"id": "2", "tip": "5"}]
