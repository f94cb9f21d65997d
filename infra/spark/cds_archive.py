"""Java's archive of the classes that Spark's jobs load: a JVM that maps it starts in half the time.

An archive is valid for one Java and one class path, which the JVM checks itself: Spark starts without an invalid archive.
https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html
"""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, SparkSession

from tandem.infra import settings
from tandem.infra.java import java_home
from tandem.infra.spark import errors
from tandem.infra.spark.session import get_or_create_session
from tandem.views.errors import TandemError

# Classes that only a job with a broker would load.
_OF_KAFKA = (
    "org.apache.kafka.clients.admin.KafkaAdminClient",
    "org.apache.kafka.clients.consumer.KafkaConsumer",
    "org.apache.spark.sql.kafka010.KafkaBatchPartitionReader",
    "org.apache.spark.sql.kafka010.KafkaMicroBatchStream",
    "org.apache.spark.sql.kafka010.KafkaSourceProvider",
)
_END_S = 300


def make() -> None:
    """Run a small job of every kind and archive the classes that the JVM loaded; replaces archives of other jars or Javas.

    Set-up calls it, in one process at a time. Raises TandemError, and what Spark raises; then no archive exists.
    """
    archive = java_home.class_archive(java_home.find(os.environ), os.environ)
    java_home.refuse_escapes([Path(pyspark.__file__).parent, archive])
    folder = archive.with_name("classes.new")
    shutil.rmtree(folder, ignore_errors=True)  # of a set-up that was killed
    for old in archive.parent.glob(java_home.CLASS_ARCHIVES):
        old.unlink()
    folder.mkdir()
    try:
        written = folder / archive.name
        conf = {"spark.driver.extraJavaOptions": shlex.quote(f"-XX:ArchiveClassesAtExit={written}")}
        session = get_or_create_session(settings.load(folder, {}), "classes", environ=os.environ, conf=conf)
        _use(session, folder)
        gateway: Any = session.sparkContext._gateway  # noqa: SLF001 - the only way to the JVM's process
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(_END_S)
        if not written.exists():
            raise TandemError("Java did not write the archive of Spark's classes; Spark starts without it, in twice the time")
        written.replace(archive)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _use(session: SparkSession, folder: Path) -> None:
    table = str(folder / "table")
    session.range(64).mapInArrow(_same, "id bigint").write.format("delta").mode("append").save(table)
    session.read.format("delta").load(table).where("id > 3").toArrow()
    stream = session.readStream.format("delta").load(table).writeStream.foreachBatch(_trigger)
    stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - the only way to the JVM that py4j offers
    for name in _OF_KAFKA:
        jvm.java.lang.Class.forName(name)


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _trigger(rows: DataFrame, _: int) -> None:
    rows.mapInArrow(_same, "id bigint").toArrow()


if __name__ == "__main__":
    try:
        make()
    except TandemError as error:
        sys.exit(f"tandem: {error}")
    except errors.SPARK_ERRORS as error:
        sys.exit(f"tandem: Spark starts without an archive of its classes: {errors.sentence(error)}")
