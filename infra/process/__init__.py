"""Processes of this machine: a project's background processes, bounded children, their pulse and their ports."""
