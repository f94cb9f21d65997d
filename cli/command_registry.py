"""Every command of `tandem`, and the module that implements it.

To add a command, write `cli/<room>/<name>.py` with a function `run(call: Call, ...) -> Output | None` and add its line here.
The other parameters are typer's; the docstring is the command's help; cli/command/call.py defines Call and Output. A command's
module is imported only when the command runs, so `check` stays fast and `query` does not load Spark.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from tandem.infra.folders import EXAMPLES

Group = Literal["start", "define", "run", "ask", "change", "operate", "develop"]
"""The groups of the list of commands, in their order."""

_OF_ROOMS: Final[Mapping[str, Group]] = {
    "demo": "start",
    "project": "define",
    "run": "run",
    "log": "run",
    "ask": "ask",
    "release": "change",
    "batch": "operate",
    "doctor": "operate",
    "metrics": "operate",
    "dev": "develop",
}


class Entry(NamedTuple):
    """A command's module, and its line in the list of commands; `of` is its group where that is not the group of its room."""

    module: str
    summary: str
    of: Group | None = None

    @property
    def group(self) -> Group:
        """The group of the command in the list of commands."""
        return self.of or _OF_ROOMS[self.module.split(".")[2]]


COMMANDS: Mapping[str, Entry] = {
    "demo": Entry("tandem.cli.demo", "Run the whole platform here; with --once, verify its answers."),
    "test": Entry("tandem.cli.dev.test", "Run lint, types, import directions and the tests."),
    "bench": Entry("tandem.cli.dev.bench", "Measure Tandem beside its peers, and what it costs."),
    "package": Entry("tandem.cli.dev.package", "Build a wheel that installs `tandem` without a checkout."),
    "docs": Entry("tandem.cli.dev.docs", "Build the documentation as a site that works offline."),
    "init": Entry("tandem.cli.project.init", "Create a working project.", "start"),
    "translate": Entry("tandem.cli.project.translate", "Write the view that a query of Spark, Flink or PostgreSQL means."),
    "try": Entry("tandem.cli.project.try_view", "Answer a view from a file, without Java or Kafka."),
    "check": Entry("tandem.cli.project.check", "Check definitions and settings."),
    "views": Entry("tandem.cli.project.list_views", "List sources and views: keys, windows, measures, exactness."),
    "explain": Entry("tandem.cli.project.explain", "Show how a view is computed, and what it reads and stores."),
    "doctor": Entry("tandem.cli.doctor", "Check machine, broker, tables and state; say how to fix each."),
    "up": Entry("tandem.cli.run.up", "Start broker and speed layer; --airflow and --serve add more."),
    "down": Entry("tandem.cli.run.down", "Stop everything that `up` started."),
    "status": Entry("tandem.cli.run.status", "Show processes, positions, lag and cuts."),
    "logs": Entry("tandem.cli.run.logs", "Show the log lines of the project's processes."),
    "metrics": Entry("tandem.cli.metrics", "Print or serve metrics for Prometheus."),
    "dashboard": Entry("tandem.cli.project.dashboard", "Print a Grafana dashboard of the project's views.", "operate"),
    "generate": Entry("tandem.cli.log.generate", "Generate sample events and record the expected answers."),
    "feed": Entry("tandem.cli.log.feed", "Send the lines of a file, or of standard input, as records."),
    "quarantine": Entry("tandem.cli.release.quarantine", "List the records that could not be decoded, with reasons.", "operate"),
    "archive": Entry("tandem.cli.log.archive", "Copy new records into Delta tables and decode them.", "operate"),
    "export": Entry("tandem.cli.log.export", "Write the archive to a folder, for another installation.", "operate"),
    "import": Entry("tandem.cli.log.import_archive", "Add an export to the archive.", "operate"),
    "adopt": Entry("tandem.cli.log.adopt", "Make the rows of a table the history of a source.", "operate"),
    "forget": Entry("tandem.cli.log.forget", "Erase records from archive, views and all files.", "operate"),
    "replay": Entry("tandem.cli.log.replay", "Rebuild a topic from the archive.", "operate"),
    "table": Entry("tandem.cli.log.table.rebuild", "Take rows out of a table that a new snapshot did not bring.", "operate"),
    "plan": Entry("tandem.cli.release.plan", "Show how definitions differ from the published ones."),
    "apply": Entry("tandem.cli.release.apply", "Build the project's definitions as a release beside the live one."),
    "diff": Entry("tandem.cli.release.diff", "List the rows in which a ready release differs from the live one."),
    "rehearse": Entry("tandem.cli.release.rehearse", "Show what the definitions would have answered in the last days."),
    "promote": Entry("tandem.cli.release.promote", "Make a ready release live."),
    "rollback": Entry("tandem.cli.release.rollback", "Make an earlier publication live again."),
    "resume": Entry("tandem.cli.release.resume", "Let recomputes publish again after a rollback."),
    "retire": Entry("tandem.cli.release.retire", "Retire a release that is not live."),
    "history": Entry("tandem.cli.release.history", "List the publications: which was live, since when, and why."),
    "recompute": Entry("tandem.cli.batch.recompute", "Fold archived events into batch views and publish them."),
    "maintain": Entry("tandem.cli.batch.maintain", "Compact tables, and delete files that nothing retained uses."),
    "audit": Entry("tandem.cli.batch.audit", "List how served answers differed from later batch results."),
    "verify": Entry("tandem.cli.batch.verify", "Replay the archive through both paths, and compare answers."),
    "points": Entry("tandem.cli.batch.points", "Give rows with times the measures that were answered then."),
    "speed": Entry("tandem.cli.run.speed", "Run the speed layer in the foreground."),
    "airflow": Entry("tandem.cli.run.airflow", "Run Airflow's own command line for the project's local Airflow.", "operate"),
    "serve": Entry("tandem.cli.run.serve", "Serve answers and accept events over HTTP."),
    "sink": Entry("tandem.cli.run.sink", "Keep a table or topic elsewhere equal to a view."),
    "alerts": Entry("tandem.cli.run.alerts", "List alerts of views, or run them and send what they say."),
    "token": Entry("tandem.cli.run.token", "Create, list and revoke tokens for the server.", "operate"),
    "query": Entry("tandem.cli.ask.query", "Query a view."),
    "why": Entry("tandem.cli.ask.why", "Show the events behind a row, and compute it again from them."),
    "why-changed": Entry("tandem.cli.ask.why_changed", "Show what made rows change between two moments."),
    "receipt": Entry("tandem.cli.ask.receipt", "Compute an answer again from its receipt."),
    "sql": Entry("tandem.cli.ask.sql", "Query the views in SQL: one statement, or a prompt."),
    "pyspark": Entry("tandem.cli.ask.pyspark", "Open a PySpark shell, or run a script, over views and events."),
    "watch": Entry("tandem.cli.ask.watch", "Print a view's rows as they change."),
}

EXAMPLE_OF: Final = {"demo": EXAMPLES / "demo"}
"""The project of a command that does not need to be called in a project."""

WITHOUT_PROJECT: Final = frozenset({"init", "translate", "test", "bench", "package", "docs"})
"""Commands that do not use a project."""

OF_CHECKOUT: Final = frozenset({"test", "bench", "package", "docs"})
"""Commands that a wheel does not include, because they need files of the repository."""

USAGE: Final = "Usage: tandem COMMAND [OPTIONS] [ARGS]...\n"
