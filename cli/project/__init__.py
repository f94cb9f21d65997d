"""A project's folder before anything runs: create, check and explain it, and try a view on a file. No Java, no broker.

Only `init` writes, into the new folder; `template/` is what it copies.
"""
