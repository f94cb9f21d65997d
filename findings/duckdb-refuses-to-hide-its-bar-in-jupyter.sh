#!/usr/bin/env bash
# DuckDB 2.0 in a kernel of Jupyter without ipywidgets: `SET enable_progress_bar = false` is refused, since a bar there would need
# ipywidgets, although the statement turns the bar off and it is off already. In a script the same statement works. So a library
# that turns the bar off before it answers works in every test and fails in a notebook.
# Exits with 1 if the behaviour is another one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check duckdb==2.0.0 ipykernel==6.29.5 jupyter-client==8.6.3
cd "$work"
JUPYTER_RUNTIME_DIR="$work/run" IPYTHONDIR="$work/ipython" "$work/venv/bin/python" - <<'PYTHON'
import duckdb
from jupyter_client.manager import start_new_kernel

CELL = """
import duckdb
connection = duckdb.connect()
print(connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()[0][0])
try:
    connection.execute("SET enable_progress_bar = false")
    print("set")
except duckdb.Error as error:
    print(type(error).__name__, "ipywidgets" in str(error))
"""
connection = duckdb.connect()
connection.execute("SET enable_progress_bar = false")
manager, client = start_new_kernel(kernel_name="python3")
said = []
client.execute_interactive(CELL, timeout=120, output_hook=lambda message: said.append(message["content"].get("text", "")))
client.stop_channels()
manager.shutdown_kernel(now=True)
lines = "".join(said).split("\n")
print("duckdb", duckdb.__version__, "in a script: set; in a kernel the bar and the statement:", *lines)
raise SystemExit(lines[:2] != ["False", "InvalidInputException True"])
PYTHON
