"""The only place that starts Spark's JVM: its session, its Kafka source, its lock, its errors, its archive of classes."""
