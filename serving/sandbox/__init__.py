"""Processes that are confined: forked from a ready process, with a socket to the server and nothing else of it.

Foreign SQL (`serving.sql`) and code of a project (`serving.code`) run in them.
"""
