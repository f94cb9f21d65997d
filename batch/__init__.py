"""The batch layer: archive the log, fold all of it into views, publish. Spark distributes the work, the kernel computes."""
