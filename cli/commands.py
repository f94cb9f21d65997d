"""Every command of `tandem`, and the module that is imported when it is used.

To add one: write `cli/<name>.py` with a function `run(call: Call, ...) -> Output | None` whose further parameters are typer's and
whose docstring is the command's help (cli/call.py says what it is given and gives back), and add its line here. Nothing is
imported for a command that is not used, so that `check` stays fast and `query` needs no Spark.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from cli.call import Call, resolve_project


class Entry(NamedTuple):
    """A command's module, and its line in the list of commands."""

    module: str
    summary: str


COMMANDS: Mapping[str, Entry] = {
    "demo": Entry("cli.demo", "Show the platform alive, or with --once prove its answers."),
    "test": Entry("cli.test", "Run lint, types, import directions and the tests."),
    "bench": Entry("cli.bench", "Compare with Spark as the textbook and as experts use it."),
    "package": Entry("cli.package", "Build a wheel, which installs the command without a checkout."),
    "init": Entry("cli.init", "Write a new project that works."),
    "try": Entry("cli.try_view", "Answer a view from a file, without Java or Kafka."),
    "check": Entry("cli.check", "Check definitions and settings."),
    "explain": Entry("cli.explain", "Show how a view is computed, and what it reads and holds."),
    "doctor": Entry("cli.doctor", "Look at machine, broker, tables and state, and say what mends what is wrong."),
    "up": Entry("cli.up", "Start the broker and the speed layer, detached; with --airflow also Airflow."),
    "down": Entry("cli.down", "Stop what up has started."),
    "status": Entry("cli.status", "Show processes, positions, lag and cuts."),
    "logs": Entry("cli.logs", "Show what the project's processes said."),
    "metrics": Entry("cli.metrics", "Print or serve figures for Prometheus."),
    "generate": Entry("cli.generate", "Send made-up events and keep the truth about them."),
    "feed": Entry("cli.feed", "Send the lines of a file, or of standard input, as records."),
    "quarantine": Entry("cli.quarantine", "List the records that could not be read, with reasons."),
    "archive": Entry("cli.archive", "Copy the log into Delta and decode it."),
    "export": Entry("cli.export", "Write the archive to a folder, for another installation."),
    "import": Entry("cli.import_archive", "Make an export part of the archive."),
    "replay": Entry("cli.replay", "Rebuild a topic from the archive."),
    "plan": Entry("cli.plan", "Say what the project's definitions change of what is published."),
    "apply": Entry("cli.apply", "Build the project's definitions as a release beside the live one."),
    "promote": Entry("cli.promote", "Make a release that is ready live."),
    "rollback": Entry("cli.rollback", "Make an earlier publication live again."),
    "resume": Entry("cli.resume", "Let recomputes publish again after a rollback."),
    "retire": Entry("cli.retire", "Let a release go that is not live."),
    "history": Entry("cli.history", "List the publications: what was live, since when, and why."),
    "recompute": Entry("cli.recompute", "Fold the whole log into new batch views and publish them."),
    "maintain": Entry("cli.maintain", "Compact tables, and free what nothing needs any more."),
    "audit": Entry("cli.audit", "List how served answers compared with what the batch then found."),
    "verify": Entry("cli.verify", "Replay the archive through both paths, and compare with what is published."),
    "speed": Entry("cli.speed", "Run the speed layer in the foreground."),
    "airflow": Entry("cli.airflow", "Run Airflow's own command line, for the project's local Airflow."),
    "serve": Entry("cli.serve", "Answer over HTTP, and take events."),
    "token": Entry("cli.token", "Make, list and revoke tokens for the server."),
    "query": Entry("cli.query", "Ask a view."),
    "sql": Entry("cli.sql", "Ask the views in SQL: one statement, or a prompt."),
    "pyspark": Entry("cli.pyspark", "Open a PySpark shell, or run a script, over views, events and quarantine."),
    "watch": Entry("cli.watch", "Print a view's rows as they change."),
}

OF_CHECKOUT: Final = frozenset({"test", "bench", "package"})
"""The commands that a wheel does not have: they need what only the repository holds."""

_SHARED = {
    "project": Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The project's folder; default $TANDEM_PROJECT, else here if here is a tandem.toml, else examples/web.",
        ),
    ],
    "json": Annotated[bool, typer.Option("--json", help="Print one JSON document.")],
    "debug": Annotated[bool, typer.Option("--debug", help="Show stacks and Spark's own log.")],
}


def application(name: str, *, environ: Mapping[str, str], cwd: Path) -> typer.Typer:
    """Import a command and make it ready to be run: typer parses, the function is given its call."""
    run = importlib.import_module(COMMANDS[name].module).run
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(name, context_settings={"help_option_names": ["-h", "--help"]})(_bound(run, environ, cwd))
    return app


def _bound(run: Callable[..., Any], environ: Mapping[str, str], cwd: Path) -> Callable[..., Any]:
    """The function with the shared options in the place of its first parameter."""

    def bound(**given: Any) -> Any:
        project, as_json, debug = (given.pop(name) for name in _SHARED)
        return run(Call(resolve_project(project, environ, cwd), as_json, debug, environ), **given)

    own = list(inspect.signature(run, eval_str=True).parameters.values())[1:]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=None if name == "project" else False)
        for name, kind in _SHARED.items()
    ]
    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own] + shared
    # What typer reads of a function.
    bound.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    bound.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    bound.__doc__ = run.__doc__
    return bound
