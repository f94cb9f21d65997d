"""The batch layer: archives the log, folds all of it into views, publishes. Spark distributes the work, the kernel computes."""
