"""Sinks: which rows of a view are kept equal elsewhere, and where."""
