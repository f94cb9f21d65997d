"""A realtime table as commits: their rows, which of them tile the log, compaction, following. Nothing here writes a table."""
