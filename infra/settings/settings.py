"""All tables of one project's settings, together."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.infra.settings.tables.airflow import Airflow
from tandem.infra.settings.tables.batch import Batch
from tandem.infra.settings.tables.kafka import Kafka
from tandem.infra.settings.tables.keep import Keep
from tandem.infra.settings.tables.lineage import Lineage
from tandem.infra.settings.tables.logs import Logs
from tandem.infra.settings.tables.serving import Serving
from tandem.infra.settings.tables.spark import Spark
from tandem.infra.settings.tables.speed import Speed
from tandem.infra.settings.tables.storage import Storage
from tandem.infra.settings.tables.supervisor import Supervisor


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
