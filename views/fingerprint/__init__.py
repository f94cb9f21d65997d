"""What gives a definition its meaning, its hash, and what differs between two definitions. Golden fingerprints hold it."""
