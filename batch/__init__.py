"""The batch layer: archive the log, fold the views from all of it, publish. Spark spreads the work, the kernel computes."""
