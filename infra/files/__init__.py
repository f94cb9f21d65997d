"""Files that are replaced in one step, files that only their owner may read, and locks that are files."""
