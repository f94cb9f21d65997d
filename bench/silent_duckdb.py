"""DuckDB that prints nothing: by default a progress bar goes to standard output after two seconds."""

import duckdb


def connect() -> duckdb.DuckDBPyConnection:
    """A connection to a database in memory, with DuckDB's other defaults."""
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return connection
