"""Look-ups of a view: which rows of a table or file its events read."""
