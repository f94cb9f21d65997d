"""Files that are replaced atomically, files that only their owner may read, and lock files."""
