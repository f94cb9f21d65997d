"""The documentation site: its pages and its configuration."""
