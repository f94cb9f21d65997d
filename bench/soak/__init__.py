"""A server under mixed load for a while: whether memory, open files and threads grow."""
