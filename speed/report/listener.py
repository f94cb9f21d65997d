"""Spark's StreamingQueryListener, which passes on the progress of each micro-batch."""

from dataclasses import dataclass
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from tandem.speed.report.progress import Recorder


@dataclass
class _Listener:
    """Spark's StreamingQueryListener, which takes each progress as one JSON text: PySpark's own asks the JVM for every field."""

    recorder: Recorder

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's names
        self.recorder.add(event.progress().json())

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self.recorder.idle(event.id().toString())

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Nothing."""

    class Java:
        """The interface that py4j implements."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def listen(spark: SparkSession, recorder: Recorder) -> None:
    """Record the session's queries from now on."""
    context: Any = spark.sparkContext
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]  # noqa: SLF001 - as PySpark does
    streaming = context._jvm.org.apache.spark.sql.streaming  # noqa: SLF001
    listener = streaming.PythonStreamingQueryListenerWrapper(_Listener(recorder))
    spark._jsparkSession.streams().addListener(listener)  # noqa: SLF001
