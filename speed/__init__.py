"""The speed layer: the log's tail as partials, one commit per micro-batch, in Structured Streaming."""
