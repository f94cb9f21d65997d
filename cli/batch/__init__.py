"""Batch runs: recompute, maintain and verify call the room of `batch` with their name; audit prints what recomputes found."""
