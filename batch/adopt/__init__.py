"""Make the rows of a table, which Spark reads, records of a source's archive."""
