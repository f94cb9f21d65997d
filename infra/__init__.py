"""The environment: settings, processes, and the only places that start Java, a broker, a Kafka client or a Spark session.

`folders.py` has the three folders of a copy: code, cache and state. No room here reads the ledger.
"""
