"""The cost of questions that are answered in process, compared with DuckDB over the same files."""
