"""Start, stop and watch the processes of a project: supervisor, speed layer, server, Airflow, their state and logs.

Writes the files of the state folder that name processes, and tokens; no table.
"""
