"""The hot tail of a source: its newest records, folded as the next commits will fold them, before any commit has them.

docs/design/hot-tail.md explains it.
"""
