"""Comparisons with peers: what the same answers cost elsewhere."""
