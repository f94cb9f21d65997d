"""Keeping the parts of a project running: when to restart one, what is on record about it, and the loop that does both."""
