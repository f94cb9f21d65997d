"""One source of one release: where to continue in its log, what was counted before, and the query from there on.

`tandem verify` uses the same path over the archive.
"""
