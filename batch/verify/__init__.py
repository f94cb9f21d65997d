"""Check published answers against the log: replayed through the speed path, and by the plain oracle for sampled keys."""
