"""A project's folder before anything runs: make it, check it, explain it, try a view on a file. No Java, no broker.

Only `init` writes, into the new folder; `template/` is what it copies.
"""
