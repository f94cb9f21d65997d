"""`tandem bench together`: answers over several streams, beside Flink SQL and Structured Streaming."""
