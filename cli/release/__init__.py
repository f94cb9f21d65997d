"""Releases from plan to retirement: each command calls `tandem.batch.release` or `tandem.ledger.publish` and prints it."""
