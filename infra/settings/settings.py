"""All tables of one project's settings, together."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from infra.settings.tables.airflow import Airflow
from infra.settings.tables.batch import Batch
from infra.settings.tables.kafka import Kafka
from infra.settings.tables.keep import Keep
from infra.settings.tables.lineage import Lineage
from infra.settings.tables.logs import Logs
from infra.settings.tables.serving import Serving
from infra.settings.tables.spark import Spark
from infra.settings.tables.speed import Speed
from infra.settings.tables.storage import Storage
from infra.settings.tables.supervisor import Supervisor


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings of one project; `state` and a given `storage.root` are absolute once loaded."""

    state: Annotated[str, Meta(description="Folder of all state, relative to the project's folder.")] = ".tandem"
    storage: Storage = Storage()
    kafka: Kafka = Kafka()
    spark: Spark = Spark()
    speed: Speed = Speed()
    supervisor: Supervisor = Supervisor()
    batch: Batch = Batch()
    keep: Keep = Keep()
    logs: Logs = Logs()
    lineage: Lineage = Lineage()
    airflow: Airflow = Airflow()
    serving: Serving = Serving()

    @property
    def folder(self) -> Path:
        """The state folder."""
        return Path(self.state)
