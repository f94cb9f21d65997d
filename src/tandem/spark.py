"""A project in Spark: views, events tables and quarantines as DataFrames, all at one snapshot.

    from tandem import spark

    shop = spark.snapshot("my_shop")
    shop.view("sales").show()

`session` gives the Spark session by itself, `dataframe` a view at the snapshot of a connection of `tandem.client`;
`tandem pyspark` opens a shell that has session and snapshot.
"""

from tandem.serving.spark import dataframe
from tandem.serving.spark_frames import Frames, session, snapshot

__all__ = ["Frames", "dataframe", "session", "snapshot"]
