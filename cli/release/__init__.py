"""Releases from plan to retirement: each command calls `batch.release` or `ledger.publish` and prints the result."""
