"""What kafka-python does for the port: connections, topics, offsets, records. Callers use the names of `infra.kafka`."""
