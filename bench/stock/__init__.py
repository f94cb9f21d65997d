"""Tandem compared with three Structured Streaming jobs that maintain the same views."""
