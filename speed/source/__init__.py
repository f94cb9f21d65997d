"""One source of one release: where to continue in its log, what was counted before, and the query from there on. For `tandem
verify`, the same path over the archive.
"""
