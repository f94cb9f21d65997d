"""The command `table`: rows that a table has, and a new snapshot of its database does not."""
