from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tandem.infra import kafka
from tests.batch.shop import Shop
from tests.stack import new_topic


@pytest.fixture
def shop(broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path) -> Shop:
    """A shop that has sold nothing yet; its runs find the tests' one Spark session."""
    return Shop.open(broker, new_topic(broker), tmp_path)
