"""What the DAGs of this folder share: one way to run `tandem`, what views are called as assets, and one small configuration."""
