"""The targets that definitions can name: a line each. `tandem` offers what is imported here."""

from tandem.views.sinks.delta_table import delta_table as delta_table
from tandem.views.sinks.kafka_topic import kafka_topic as kafka_topic
from tandem.views.sinks.postgres_table import postgres_table as postgres_table
from tandem.views.sinks.webhook import webhook as webhook
