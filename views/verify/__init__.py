"""Compares two computations of a view, and tests the laws on random events."""
