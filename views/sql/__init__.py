"""DuckDB: the locked engine, and the expressions and functions that a definition may use in it; exact numbers beside it."""
