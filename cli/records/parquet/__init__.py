"""Rows of Parquet files as values of records."""
