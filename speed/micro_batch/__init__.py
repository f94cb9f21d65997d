"""One micro-batch: tasks fold its records, the driver drops duplicates and unites partials, one commit takes them into the
realtime table, which nothing else of this layer writes.
"""
