"""The speed layer as a process: a thread for each source and release, restarts, waits for the broker, checkpoints, lineage."""
