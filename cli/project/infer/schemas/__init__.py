"""The definitions that `init --from` writes for a schema of a registry."""
