"""A server under mixed load for a while: whether memory, files and threads stay as they are."""
