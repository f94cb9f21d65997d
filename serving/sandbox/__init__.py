"""Confined processes: forked from a prepared process, with a socket to the server and nothing else of it.

Foreign SQL (`tandem.serving.sql`) and project code (`serving.code`) run in them.
"""
