"""The meaning of each exit code, for Airflow, cron and containers: the tables of docs/reference.md.

The command line refuses a code that is not listed here (cli/command_line.py).
"""

from collections.abc import Iterator, Mapping
from typing import Final

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

ALWAYS: Final[Mapping[int, str]] = {
    DONE: "Success. For `speed`, `serve`, `metrics --port` and other commands that run until stopped: stopped by SIGTERM or "
    "Ctrl-C, with a clean shutdown.",
    FAILED: "Failure. The sentence on stderr, and `error` in the document of `--json`, give the reason, and its `code` the kind "
    "(docs/errors.md). The command can be run again: it continues from the last completed step. A state folder of another format "
    "is a failure of every command that opens it.",
    USAGE: "Usage error: an unknown command, option or value. Correct the command line before the next try.",
    INTERRUPTED: "Interrupted by Ctrl-C. The processes that the command started have ended; the sentence on stderr says what "
    "was kept or published, and how to continue.",
}
"""Codes of every command."""

OWN: Final[Mapping[str, Mapping[int, str]]] = {
    "bench": {1: "Also: the sides' answers differ, or the soak grew or had errors."},
    "demo": {1: "Also: a check of `--once` failed."},
    "test": {1: "Also: lint, types, import directions or a test failed."},
    "doctor": {1: "Also: a check has the outcome `fail`."},
    "try": {1: "Also: nothing of the file can be decoded."},
    "verify": {1: "Also: an unexplained difference."},
    "why": {1: "Also: the row differs from what its events make."},
    "receipt": {1: "Also: the answer differs from the receipt, or a record, file or release that it needs is missing."},
    "status": {3: "A part is dead, stuck or given up, or most of the newest records of a source are rejected."},
    "query": {3: "With `--wait`: answers did not count the records in time."},
    "feed": {3: "With `--wait`: all records are acknowledged, but answers did not count them in time."},
    "generate": {3: "With `--wait`: all records are acknowledged, but answers did not count them in time."},
    "table": {3: "With `--wait`: all deletes are acknowledged, but answers did not count them in time."},
    "plan": {3: "The definitions differ from the published ones."},
    "forget": {3: "With `--prove`: something is left of what was erased."},
    "promote": {3: "With `--check`: the gate is closed."},
}
"""Additional or different codes of single commands."""

FOREIGN: Final[Mapping[str, str]] = {
    "airflow": "The exit code of Airflow's own command line.",
    "pyspark": "The exit code of SCRIPT, if it calls `sys.exit`.",
}
"""Commands that exit with another program's code."""


def known(command: str) -> frozenset[int]:
    """Return the codes that a command may exit with."""
    return frozenset(ALWAYS) | frozenset(OWN.get(command, {}))


def lines() -> Iterator[str]:
    """Yield the lines of the tables."""
    yield "| exit code | of every command |"
    yield "| --- | --- |"
    yield from (f"| {code} | {meaning} |" for code, meaning in ALWAYS.items())
    yield "| 128 + N | Ended by signal N, as a shell reports it: 137 is SIGKILL, 143 is SIGTERM. |"
    yield ""
    yield "| command | exit code | means |"
    yield "| --- | --- | --- |"
    yield from (f"| `{name}` | {code} | {meaning} |" for name, own in OWN.items() for code, meaning in own.items())
    yield from (f"| `{name}` | any | {meaning} |" for name, meaning in FOREIGN.items())
