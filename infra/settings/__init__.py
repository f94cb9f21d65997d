"""A project's settings: `tables/` defines each, one file per table, also for docs/configuration.md and `tandem check`.
Callers use only the names of this package.
"""

from tandem.infra.settings.documented_keys import PREFIX, Key, keys
from tandem.infra.settings.loader import FILE, OTHER_VARIABLES, SettingsError, load
from tandem.infra.settings.masking import MASK, effective, secrets, without_secrets
from tandem.infra.settings.settings import Settings
from tandem.infra.settings.tables.airflow import Airflow
from tandem.infra.settings.tables.batch import Batch
from tandem.infra.settings.tables.kafka import Kafka
from tandem.infra.settings.tables.keep import Keep
from tandem.infra.settings.tables.lineage import Lineage
from tandem.infra.settings.tables.logs import Logs
from tandem.infra.settings.tables.oidc import Oidc
from tandem.infra.settings.tables.serving import Serving
from tandem.infra.settings.tables.spark import Spark
from tandem.infra.settings.tables.speed import Speed
from tandem.infra.settings.tables.storage import Storage
from tandem.infra.settings.tables.supervisor import Supervisor

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
