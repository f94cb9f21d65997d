"""Logs of the project's processes: bounded files of JSON lines for each part in `logs` of the state folder, and a reader."""
