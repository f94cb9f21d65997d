"""All tables of one project's settings, together."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from tandem.infra.settings.toml_tables.airflow import AirflowSettings
from tandem.infra.settings.toml_tables.alerts import AlertSettings
from tandem.infra.settings.toml_tables.batch import BatchSettings
from tandem.infra.settings.toml_tables.kafka import KafkaSettings
from tandem.infra.settings.toml_tables.keep import KeepSettings
from tandem.infra.settings.toml_tables.lineage import LineageSettings
from tandem.infra.settings.toml_tables.logs import LogsSettings
from tandem.infra.settings.toml_tables.mqtt import MqttSettings
from tandem.infra.settings.toml_tables.registry import RegistrySettings
from tandem.infra.settings.toml_tables.serving import ServingSettings
from tandem.infra.settings.toml_tables.sinks import SinkSettings
from tandem.infra.settings.toml_tables.spark import SparkSettings
from tandem.infra.settings.toml_tables.speed import SpeedSettings
from tandem.infra.settings.toml_tables.storage import StorageSettings
from tandem.infra.settings.toml_tables.supervisor import SupervisorSettings


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
