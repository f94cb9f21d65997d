"""The Structured Streaming query of one source: each of its micro-batches becomes one commit."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tandem.infra.spark import log_reader
from tandem.infra.spark.kafka_source import topic_offsets
from tandem.ledger.log.positions import Position, upper
from tandem.ledger.same_log import refuse_other_records
from tandem.speed.micro_batch.log_tail import UncommittedLog
from tandem.speed.source import record_frames
from tandem.speed.source.start_position import KafkaLog, present_log
from tandem.views.source.offset_ranges import Offsets
from tandem.views.source.source import Source, record_columns

CONF: Final = {
    # A micro-batch is one stage of a few tasks: there is nothing to adapt.
    "spark.sql.adaptive.enabled": "false",
    # Releases that are followed side by side share the executors evenly (speed/process/source_thread.py).
    "spark.scheduler.mode": "FAIR",
    # The interval at which a query without new records reports that it has polled (infra/process/pulse.py).
    "spark.sql.streaming.noDataProgressEventInterval": "1000",
}
"""Spark properties of a session in which queries run."""

_RESTART: Final = timedelta(seconds=2)
"""No broker starts again within this time."""
_PATIENCE: Final = {
    # The longest wait of a fetch for more records: it adds latency if there are few records, and nothing if there are many.
    "kafka.fetch.max.wait.ms": "20",
    # The query waits for a broker that is away for less than this.
    "kafka.request.timeout.ms": "15000",
    "kafka.default.api.timeout.ms": "30000",
    "kafkaConsumer.pollTimeoutMs": "30000",
}


@dataclass
class Query:
    """A query of a source; `error` is what ended its last micro-batch, if any.

    Each query has a new checkpoint, which only records what Spark planned: a query continues from the ledger. `committed` is
    called after each commit with the position where it starts, before the next micro-batch.
    """

    name: str
    tail: UncommittedLog
    source: Source
    log: KafkaLog
    checkpoint: Path
    committed: Callable[[Position], object]
    error: BaseException | None = field(default=None, repr=False)
    _by_port: bool = field(default=False, init=False)
    _asked: datetime | None = field(default=None, init=False)

    def start(
        self, spark: SparkSession, options: Mapping[str, str], *, starts: Offsets, most: int, pause_ms: int
    ) -> StreamingQuery:
        """Start at these offsets, one for every partition of the topics; `options` are those of Spark's Kafka source.

        A micro-batch holds at most `most` offsets, and begins at least `pause_ms` after the one before it.
        """
        topics = self.log.topics
        reader = spark.readStream.format("kafka").options(**options, **_PATIENCE, **record_frames.headers_option(self.source))
        log = reader.options(
            **record_frames.subscription(topics),
            startingOffsets=topic_offsets(topics, starts),
            maxOffsetsPerTrigger=str(most),
            failOnDataLoss="true",
        ).load()
        writer = (
            log.writeStream.queryName(self.name).foreachBatch(self.trigger).option("checkpointLocation", str(self.checkpoint))
        )
        return writer.trigger(processingTime=f"{pause_ms} milliseconds").start()

    def trigger(self, log: DataFrame, batch: int) -> None:
        """One micro-batch, called by foreachBatch; an error ends the query."""
        try:
            start = self.tail.state.end
            end = upper(start, planned_end(self.checkpoint, batch, self.log))
            if end != start:
                self._extend(log, start, end)
                self.committed(start)
        except BaseException as error:
            self.error = error
            raise

    def _extend(self, log: DataFrame, start: Position, end: Position) -> None:
        """Commit the records up to `end`; by the port once Spark cannot read a timestamp, because such a producer goes on."""
        topics = self.log.topics

        def extend(records: DataFrame) -> None:
            self.tail.extend(records, end, still_there=lambda: self._still_there(start))

        def by_port() -> DataFrame:
            self._by_port = True
            address, columns = self.log.connection.address, record_columns(self.source)
            covered = self.tail.state.ranges_to(end)
            return log_reader.of_ranges(log.sparkSession, address, topics, covered, columns)

        if self._by_port:
            extend(by_port())
        else:
            log_reader.use_either(extend, record_frames.of_kafka(log, topics, self.source), by_port)

    def _still_there(self, start: Position) -> Position:
        """The end of the log, which still has what was read of it. Raises LogChanged, NoBroker, NoTopic.

        The last records that are counted are compared only after a time without an answer in which a broker may have started
        again, with an older copy of its volume: the comparison takes as long as a micro-batch.
        """
        end, now = self.log.require(start, self.tail.state.firsts), self.tail.now()
        if self._asked is None or not timedelta() <= now - self._asked < _RESTART:
            refuse_other_records(self.source, present_log(self.log.connection, self.log.topics), self.tail.last_records)
        self._asked = now
        return end


def planned_end(checkpoint: Path, batch: int, log: KafkaLog) -> Position:
    """The planned end of a micro-batch, which Spark writes to its checkpoint before it begins."""
    last = (checkpoint / "offsets" / str(batch)).read_text("utf-8").rstrip().rpartition("\n")[2]
    planned = json.loads(last)
    ends = {topic.id: planned.get(topic.name, {}) for topic in log.topics}
    return Position.of({(topic, int(number)): offset for topic, end in ends.items() for number, offset in end.items()})
