"""The environment: settings, processes, and the only places that start Java, a broker, a Kafka client or a Spark session.

`folders` has the three folders of a copy (code, cache, state), `private_files` the files that only their owner may read.
"""
