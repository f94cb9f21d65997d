"""One source of one release: where its log is read on from, what was counted before, and the query whose micro-batches go on from
there; the same path over the archive, for `tandem verify`.
"""
