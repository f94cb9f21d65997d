"""Where it runs: settings, processes, and the only places that start Java, a broker, a Kafka client or a Spark session."""
