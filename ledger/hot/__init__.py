"""Hot commits: ranges of the log that are folded and in no table yet, between the process that folds them and its server.

`speed/hot` is that process. docs/design/hot-tail.md.
"""
