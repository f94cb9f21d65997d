"""All tables of one project's settings, together."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.infra.settings.tables.airflow import AirflowSettings
from tandem.infra.settings.tables.alerts import AlertSettings
from tandem.infra.settings.tables.batch import BatchSettings
from tandem.infra.settings.tables.kafka import KafkaSettings
from tandem.infra.settings.tables.keep import KeepSettings
from tandem.infra.settings.tables.lineage import LineageSettings
from tandem.infra.settings.tables.logs import LogsSettings
from tandem.infra.settings.tables.mqtt import MqttSettings
from tandem.infra.settings.tables.registry import RegistrySettings
from tandem.infra.settings.tables.serving import ServingSettings
from tandem.infra.settings.tables.sinks import SinkSettings
from tandem.infra.settings.tables.spark import SparkSettings
from tandem.infra.settings.tables.speed import SpeedSettings
from tandem.infra.settings.tables.storage import StorageSettings
from tandem.infra.settings.tables.supervisor import SupervisorSettings


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings of one project; `state` and a given `storage.root` are absolute once loaded."""

    state: Annotated[str, Meta(description="Folder of all state, relative to the project's folder.")] = ".tandem"
    storage: StorageSettings = StorageSettings()
    kafka: KafkaSettings = KafkaSettings()
    registry: RegistrySettings = RegistrySettings()
    mqtt: MqttSettings = MqttSettings()
    spark: SparkSettings = SparkSettings()
    speed: SpeedSettings = SpeedSettings()
    supervisor: SupervisorSettings = SupervisorSettings()
    batch: BatchSettings = BatchSettings()
    keep: KeepSettings = KeepSettings()
    logs: LogsSettings = LogsSettings()
    lineage: LineageSettings = LineageSettings()
    airflow: AirflowSettings = AirflowSettings()
    alerts: AlertSettings = AlertSettings()
    serving: ServingSettings = ServingSettings()
    sinks: SinkSettings = SinkSettings()

    @property
    def folder(self) -> Path:
        """The state folder."""
        return Path(self.state)
