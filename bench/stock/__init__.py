"""Tandem beside three Structured Streaming jobs that keep the same views."""
