"""Definitions for a file: what its columns hold, and the source, view and test that a person would begin with."""
