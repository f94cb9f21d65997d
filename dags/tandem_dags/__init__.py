"""Shared by the DAGs of this folder: one way to run `tandem`, the names of assets, and one small configuration."""
