"""Keeps the parts of a project running: when to restart a part, the record of each part, and the loop that does both."""
