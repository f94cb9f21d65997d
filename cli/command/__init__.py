"""Shared by all commands: call and output, options, messages, progress, logs and exit codes.

Nothing here knows a single command; what only one command needs belongs to that command's room.
"""
