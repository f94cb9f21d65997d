"""The port by kafka-python: connections, topics, offsets, records. Callers use the names of `tandem.infra.kafka`."""
