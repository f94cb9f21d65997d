"""Every command of `tandem`, and the module that implements it.

To add a command, write `cli/<room>/<name>.py` with a function `run(call: Call, ...) -> Output | None` and add its line here.
The other parameters are typer's; the docstring is the command's help; cli/command/call.py defines Call and Output. A command's
module is imported only when the command runs, so `check` stays fast and `query` does not load Spark.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Entry(NamedTuple):
    """A command's module, and its line in the list of commands."""

    module: str
    summary: str


COMMANDS: Mapping[str, Entry] = {
    "demo": Entry("tandem.cli.demo", "Run the whole platform on this machine; with --once, verify its answers."),
    "test": Entry("tandem.cli.dev.test", "Run lint, types, import directions and the tests."),
    "bench": Entry("tandem.cli.dev.bench", "Measure Tandem beside its peers, and what it costs."),
    "package": Entry("tandem.cli.dev.package", "Build a wheel that installs `tandem` without a checkout."),
    "init": Entry("tandem.cli.project.init", "Create a working project."),
    "try": Entry("tandem.cli.project.try_view", "Answer a view from a file, without Java or Kafka."),
    "check": Entry("tandem.cli.project.check", "Check definitions and settings."),
    "explain": Entry("tandem.cli.project.explain", "Show how a view is computed, and what it reads and stores."),
    "doctor": Entry("tandem.cli.doctor", "Check the machine, broker, tables and state, and explain how to fix each problem."),
    "up": Entry("tandem.cli.run.up", "Start the broker and the speed layer in the background; --airflow and --serve add more."),
    "down": Entry("tandem.cli.run.down", "Stop everything that `up` started."),
    "status": Entry("tandem.cli.run.status", "Show processes, positions, lag and cuts."),
    "logs": Entry("tandem.cli.run.logs", "Show the log lines of the project's processes."),
    "metrics": Entry("tandem.cli.metrics", "Print or serve metrics for Prometheus."),
    "generate": Entry("tandem.cli.log.generate", "Generate sample events and record the expected answers."),
    "feed": Entry("tandem.cli.log.feed", "Send the lines of a file, or of standard input, as records."),
    "quarantine": Entry("tandem.cli.log.quarantine", "List the records that could not be decoded, with reasons."),
    "archive": Entry("tandem.cli.log.archive", "Copy new records into Delta tables and decode them."),
    "export": Entry("tandem.cli.log.export", "Write the archive to a folder, for another installation."),
    "import": Entry("tandem.cli.log.import_archive", "Add an export to the archive."),
    "replay": Entry("tandem.cli.log.replay", "Rebuild a topic from the archive."),
    "plan": Entry("tandem.cli.release.plan", "Show how the project's definitions differ from the published ones."),
    "apply": Entry("tandem.cli.release.apply", "Build the project's definitions as a release beside the live one."),
    "promote": Entry("tandem.cli.release.promote", "Make a ready release live."),
    "rollback": Entry("tandem.cli.release.rollback", "Make an earlier publication live again."),
    "resume": Entry("tandem.cli.release.resume", "Let recomputes publish again after a rollback."),
    "retire": Entry("tandem.cli.release.retire", "Retire a release that is not live."),
    "history": Entry("tandem.cli.release.history", "List the publications: which was live, since when, and why."),
    "recompute": Entry("tandem.cli.batch.recompute", "Fold archived events into batch views and publish them."),
    "maintain": Entry("tandem.cli.batch.maintain", "Compact tables and delete files that no retained publication uses."),
    "audit": Entry("tandem.cli.batch.audit", "List how served answers differed from the batch's later results."),
    "verify": Entry("tandem.cli.batch.verify", "Replay the archive through both paths and compare with the published answers."),
    "speed": Entry("tandem.cli.run.speed", "Run the speed layer in the foreground."),
    "airflow": Entry("tandem.cli.run.airflow", "Run Airflow's own command line for the project's local Airflow."),
    "serve": Entry("tandem.cli.run.serve", "Serve answers and accept events over HTTP."),
    "token": Entry("tandem.cli.run.token", "Create, list and revoke tokens for the server."),
    "query": Entry("tandem.cli.ask.query", "Query a view."),
    "sql": Entry("tandem.cli.ask.sql", "Query the views in SQL: one statement, or a prompt."),
    "pyspark": Entry("tandem.cli.ask.pyspark", "Open a PySpark shell, or run a script, over views, events and quarantine."),
    "watch": Entry("tandem.cli.ask.watch", "Print a view's rows as they change."),
}

OF_CHECKOUT: Final = frozenset({"test", "bench", "package"})
"""Commands that a wheel does not include, because they need files of the repository."""

USAGE: Final = "Usage: tandem COMMAND [OPTIONS] [ARGS]...\n"
