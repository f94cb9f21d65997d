"""What questions cost that are answered in process, beside DuckDB over the same files."""
