"""A file a table of `tandem.toml`: each setting with its type, its bounds, its meaning and its default, and nothing else."""
