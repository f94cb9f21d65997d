"""Answers for a person: query, SQL, changes as they come, and a PySpark shell. Reads only."""
