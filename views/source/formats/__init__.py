"""Decoders of the platform, a file a format. A further one is a file here and a line in registry.py."""
