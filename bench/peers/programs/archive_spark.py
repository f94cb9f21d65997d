"""The topic copied to a Delta table by Spark, and decoded from there into another: CONFIG, a JSON file.

The file holds `spark`, its settings, `source`, the options of its Kafka source, `cores`, `raw` and `events`, the tables' folders.
Prints `RUN START END`, in seconds since the epoch, without the start of Spark.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import functions as sf

from tandem.bench.peers import spark_session

SCHEMA = "id string, at timestamp, user string, path string, bytes long, ms double"


def main() -> None:
    """Copy and decode once."""
    config = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    spark = spark_session.start(config["spark"], config["cores"])
    spark.range(1).count()
    start = time.time()
    records = spark.read.format("kafka").options(**config["source"]).load()
    copied = records.select("topic", "partition", "offset", "timestamp", "timestampType", "key", "value")
    copied.write.format("delta").save(config["raw"])
    decoded = sf.from_json(sf.col("value").cast("string"), SCHEMA).alias("event")
    events = spark.read.format("delta").load(config["raw"]).select("partition", "offset", "timestamp", decoded)
    events.select("partition", "offset", "timestamp", "event.*").write.format("delta").save(config["events"])
    print("RUN", start, time.time(), flush=True)


if __name__ == "__main__":
    main()
