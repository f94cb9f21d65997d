"""The speed layer: folds the log's tail into partials with Structured Streaming, one commit for each micro-batch."""
