"""The settings that all of Spark's contestants share."""

import os
from collections.abc import Mapping

from tandem.bench.peers.contestant import Resources
from tandem.infra.java import jars, java_home


def common(given: Resources) -> Mapping[str, str]:
    """What differs from Spark's defaults in each of them: memory, and as many shuffle partitions as cores."""
    return {
        "spark.driver.memory": given.memory,
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(given.cores),
    }


def class_archive() -> Mapping[str, str]:
    """What lets the JVM map the archive of classes that Tandem's maps; nothing where it does not exist."""
    archive = java_home.class_archive(java_home.find(os.environ), os.environ)
    return {"spark.driver.extraJavaOptions": f"-XX:SharedArchiveFile={archive}"} if archive.exists() else {}


def connectors() -> Mapping[str, str]:
    """The jars of Kafka and Delta."""
    return {"spark.jars": ",".join(map(str, jars.paths("spark", environ=os.environ)))}
