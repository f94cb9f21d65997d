"""One file for each table of `tandem.toml`: its settings with type, bounds, meaning and default, and nothing else."""
