"""One micro-batch: tasks fold its records, the driver drops duplicates and unites partials, one commit adds them to the realtime
table. Nothing else in this layer writes that table.
"""
