"""A project's settings: `toml_tables/` defines each, one file per table, also for docs/configuration.md and `tandem check`.
Callers use only the names of this package.
"""

from tandem.infra.settings.list_keys import PREFIX, Key, keys
from tandem.infra.settings.loader import FILE, OTHER_VARIABLES, SettingsError, load
from tandem.infra.settings.masking import MASK, effective, secrets, without_secrets
from tandem.infra.settings.settings import Settings
from tandem.infra.settings.toml_tables.airflow import AirflowSettings
from tandem.infra.settings.toml_tables.alerts import AlertSettings
from tandem.infra.settings.toml_tables.batch import BatchSettings
from tandem.infra.settings.toml_tables.kafka import KafkaSettings
from tandem.infra.settings.toml_tables.keep import KeepSettings
from tandem.infra.settings.toml_tables.lineage import LineageSettings
from tandem.infra.settings.toml_tables.logs import LogsSettings
from tandem.infra.settings.toml_tables.mqtt import MqttSettings
from tandem.infra.settings.toml_tables.oidc import OidcSettings
from tandem.infra.settings.toml_tables.registry import RegistrySettings
from tandem.infra.settings.toml_tables.serving import ServingSettings
from tandem.infra.settings.toml_tables.spark import SparkSettings
from tandem.infra.settings.toml_tables.speed import SpeedSettings
from tandem.infra.settings.toml_tables.storage import StorageSettings
from tandem.infra.settings.toml_tables.supervisor import SupervisorSettings

__all__ = [
    "FILE",
    "MASK",
    "OTHER_VARIABLES",
    "PREFIX",
    "AirflowSettings",
    "AlertSettings",
    "BatchSettings",
    "KafkaSettings",
    "KeepSettings",
    "Key",
    "LineageSettings",
    "LogsSettings",
    "MqttSettings",
    "OidcSettings",
    "RegistrySettings",
    "ServingSettings",
    "Settings",
    "SettingsError",
    "SparkSettings",
    "SpeedSettings",
    "StorageSettings",
    "SupervisorSettings",
    "effective",
    "keys",
    "load",
    "secrets",
    "without_secrets",
]
