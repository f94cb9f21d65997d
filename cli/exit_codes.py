"""What each exit code means, for Airflow, cron and containers: the table of docs/reference.md.

The command line refuses a code that is not listed here (cli/__main__.py).
"""

from collections.abc import Iterator, Mapping
from typing import Final

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

ALWAYS: Final[Mapping[int, str]] = {
    DONE: "Done. Of `speed`, `serve`, `metrics --port` and other commands that run until they are stopped: stopped by SIGTERM or "
    "Ctrl-C, and ended in order.",
    FAILED: "Failed; the sentence on stderr, and `error` of the document with `--json`, give the reason. Safe to try again: a "
    "command goes on from what stands.",
    USAGE: "Wrong usage: an unknown command, option or value. Trying again changes nothing.",
    INTERRUPTED: "Interrupted by Ctrl-C.",
}
"""Of every command."""

OWN: Final[Mapping[str, Mapping[int, str]]] = {
    "bench": {1: "Also: two sides gave different answers, or the soak grew or had errors."},
    "demo": {1: "Also: a check of `--once` failed."},
    "test": {1: "Also: lint, types, import directions or a test failed."},
    "doctor": {1: "Also: a check has the outcome `fail`."},
    "verify": {1: "Also: a difference that nothing explains."},
    "status": {3: "A part is dead, stuck or given up."},
    "query": {3: "With `--wait`: answers do not count the records in time."},
    "feed": {3: "With `--wait`: all records are acknowledged, but answers do not count them in time."},
    "generate": {3: "With `--wait`: all records are acknowledged, but answers do not count them in time."},
    "plan": {3: "The definitions differ from what is published."},
    "promote": {3: "With `--check`: the gate is shut."},
}
"""What a command's code means beside that, or instead."""

FOREIGN: Final[Mapping[str, str]] = {
    "airflow": "That of Airflow's own command line.",
    "pyspark": "That of SCRIPT, where it ends by `sys.exit`.",
}
"""The commands that end with somebody else's code."""


def known(command: str) -> frozenset[int]:
    """The codes that a command may end with."""
    return frozenset(ALWAYS) | frozenset(OWN.get(command, {}))


def lines() -> Iterator[str]:
    """The tables, line by line."""
    yield "| exit code | of every command |"
    yield "| --- | --- |"
    yield from (f"| {code} | {meaning} |" for code, meaning in ALWAYS.items())
    yield "| 128 + N | Ended by signal N, as a shell reports it: 137 is SIGKILL, 143 is SIGTERM. |"
    yield ""
    yield "| command | exit code | means |"
    yield "| --- | --- | --- |"
    yield from (f"| `{name}` | {code} | {meaning} |" for name, own in OWN.items() for code, meaning in own.items())
    yield from (f"| `{name}` | any | {meaning} |" for name, meaning in FOREIGN.items())
