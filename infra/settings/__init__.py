"""A project's settings: `tables/` defines each, one file per table, also for docs/configuration.md and `tandem check`.
Callers use only the names of this package.
"""

from infra.settings.documented_keys import PREFIX, Key, keys
from infra.settings.loader import FILE, OTHER_VARIABLES, SettingsError, load
from infra.settings.masking import MASK, effective, secrets, without_secrets
from infra.settings.settings import Settings
from infra.settings.tables.airflow import Airflow
from infra.settings.tables.batch import Batch
from infra.settings.tables.kafka import Kafka
from infra.settings.tables.keep import Keep
from infra.settings.tables.lineage import Lineage
from infra.settings.tables.logs import Logs
from infra.settings.tables.oidc import Oidc
from infra.settings.tables.serving import Serving
from infra.settings.tables.spark import Spark
from infra.settings.tables.speed import Speed
from infra.settings.tables.storage import Storage
from infra.settings.tables.supervisor import Supervisor

__all__ = [
    "FILE",
    "MASK",
    "OTHER_VARIABLES",
    "PREFIX",
    "Airflow",
    "Batch",
    "Kafka",
    "Keep",
    "Key",
    "Lineage",
    "Logs",
    "Oidc",
    "Serving",
    "Settings",
    "SettingsError",
    "Spark",
    "Speed",
    "Storage",
    "Supervisor",
    "effective",
    "keys",
    "load",
    "secrets",
    "without_secrets",
]
