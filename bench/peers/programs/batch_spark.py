"""The view recomputed from Parquet files by Spark SQL: CONFIG, a JSON file with `files`, `output`, `cores`, `spark` and `repeat`.

Prints `RUN START END`, in seconds since the epoch, for each repetition; events of equal id are counted once.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import functions as sf

from tandem.bench.peers import spark_session


def main() -> None:
    """Recompute as often as the configuration says."""
    config = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    spark = spark_session.start(config["spark"], config["cores"])
    for _ in range(config["repeat"]):
        start = time.time()
        events = spark.read.parquet(*config["files"]).select("id", "at", "path", "bytes", "ms").dropDuplicates(["id"])
        minute = sf.date_trunc("minute", "at").alias("w")
        measures = (sf.count("*").alias("n"), sf.sum("bytes").alias("b"), sf.max("ms").alias("m"))
        events.groupBy("path", minute).agg(*measures).write.mode("overwrite").parquet(config["output"])
        print("RUN", start, time.time(), flush=True)


if __name__ == "__main__":
    main()
