"""The token that each sink stores in its target, in one step with the rows that it is of.

| target | where |
| --- | --- |
| Kafka | with the offset of the transaction (`kafka_topic.py`) |
| Delta | in the metadata of the commit (`delta.py`) |
| PostgreSQL | a row of `tandem_sink_tokens` (`postgres.py`) |
| webhook | with the stored message, before it is sent (`outbox.py`) |
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Stamp:
    """What is stored with each step of a sink: `text`, the token with the rows that it is of; and where the rows come from."""

    text: str
    publication: int
