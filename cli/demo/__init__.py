"""`tandem demo`: run the whole platform on this machine; with --once, verify its answers."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.signals import interrupted
from tandem.cli.command.typed_command import program
from tandem.cli.demo import lake, live, scheduler
from tandem.cli.demo.once import AIRFLOW_S, UP_S, Play, SentRecord, base, figures, play
from tandem.cli.demo.scheduler import Scheduler
from tandem.cli.demo.stage import staged
from tandem.cli.demo.watcher import Watcher
from tandem.cli.log import generate
from tandem.cli.log.generate import Generator, NoGenerator
from tandem.infra import clock
from tandem.views.errors import TandemError, listed


def run(
    call: Call,
    *,
    once: Annotated[bool, typer.Option("--once", help="Run without a terminal: verify every exact answer, then exit.")] = False,
    events: Annotated[int, typer.Option(min=100, help="With --once: number of events to send.")] = 200_000,
    rate: Annotated[float, typer.Option(min=1, help="Maximum number of events sent per second.")] = 2_000.0,
    with_airflow: Annotated[
        bool, typer.Option("--airflow", help="Let Airflow's scheduler archive and recompute every minute.")
    ] = False,
    storage: Annotated[
        Literal["folder", "s3"], typer.Option(help="Where the tables are: the demo's folder, or a bucket of its own S3 server.")
    ] = "folder",
    cluster: Annotated[
        bool, typer.Option("--cluster", help="With --storage s3: run Spark on a master and two workers of the demo's own.")
    ] = False,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="With --once: begin with tables that end in the middle of the stream.")
    ] = False,
) -> Output:
    """Run broker, generator, speed layer, batch layer and merged reader together, in a state folder of its own.

    On a terminal the demo shows live figures until Ctrl-C. With --once it sends a fixed number of events and compares every
    answer of every exact measure with the generator's expected answers three times:

    * while realtime views cover the newest events
    * after a batch run over all events
    * after the speed layer was killed and restarted

    Each time it also compares the tables and topics of the project's sinks, and the rows for which its alerts are raised, once
    their tokens count the same events. The tables are in the demo's folder and the topics at its own broker; the demo writes to
    no target of the project. Conditions of sinks and alerts are compared if the generator's `CONDITIONS` repeat them.

    The demo succeeds only if all answers agree. With --airflow the DAG `recompute` makes the batch runs. With --storage s3 the
    demo starts an S3 server on loopback and keeps all tables there.

    With --cluster Spark's tasks run on two workers, each set apart as on another host as far as this machine allows. With --once
    an executor of each run is killed, and the demo fails if it finds a table in the state folder, or a credential in a log,
    another file of the state or a command line.

    With --adopt the first 40 % of the events are in Parquet tables, which the demo adopts by `tandem adopt` before it starts the
    speed layer; it sends the events from 20 % on, so that tables and topics overlap.
    """
    if cluster and storage != "s3":
        raise TandemError(
            "`tandem demo --cluster` needs `--storage s3`: workers on other hosts see no folder of this one", code="usage-invalid"
        )
    if adopt and (cluster or not once):
        raise TandemError(
            "`tandem demo --adopt` needs `--once`, and cannot be combined with `--cluster`: workers see no table of this host",
            code="usage-invalid",
        )
    console = call.console()
    if not once and (call.json or not console.is_terminal):
        raise TandemError("`tandem demo` needs a terminal; without one use `tandem demo --once`", code="usage-invalid")
    generator = generate.load(call.project)
    _check_conditions(generator, call)
    start = time.monotonic()

    def say(text: str) -> None:
        call.say(f"[{time.monotonic() - start:6.1f} s] {text}")

    call = replace(call, environ={**call.environ, **scheduler.ENVIRON}) if with_airflow else call
    with interrupted(), staged(call, s3=storage == "s3", cluster=cluster) as stage:
        record, first, seam = SentRecord(), base(clock.now()), lake.NO_TABLE
        if stage.cluster is not None:
            say(f"Spark's workers are set apart by: {stage.cluster.host.apart}")
        if adopt:
            with record.timed("adopt"):
                seam = lake.adopt(stage, generator, events, first, say)
        say(f"starting broker and speed layer in {stage.state}")
        with record.timed("up"):
            # The first use installs Airflow.
            stage.up(*(["--airflow"] if with_airflow else []), seconds=AIRFLOW_S if with_airflow else UP_S)
        runs = Scheduler(stage.call.settings()) if with_airflow else None
        watcher = Watcher(stage.call.settings(), stage.call.definitions(), generator.sources)
        if once:
            play(Play(stage, watcher, events, rate, first, record, say, runs, seam, generator.conditions))
            say("stopping all parts")
        else:
            try:
                live.show(stage, watcher, console, rate, generator=generator, runs=runs)
            except KeyboardInterrupt:
                call.say("stopping all parts")
    if not once:
        return Output({}, _to_try_next(program(call.environ)))
    checks = [check.to_json() for check in record.checks]
    document = {"events": events, "checks": checks, "figures": figures(record, events, time.monotonic() - start)}
    document["sinks"] = {sink: [check.to_json() for check in each] for sink, each in record.sinks.items()}
    document["alerts"] = {alert: [check.to_json() for check in each] for alert, each in record.alerts.items()}
    if adopt:
        document["adopted"] = {"rows": seam.rows, "overlap": seam.overlap}
    if stage.cluster is not None:
        document["cluster"] = {
            "workers_apart_by": stage.cluster.host.apart,
            "executors_killed": len(stage.cluster.killed),
        }
    return Output(document, _sentences(document), 0 if all(check.passed for check in record.every()) else 1)


def _check_conditions(generator: Generator, call: Call) -> None:
    """Raise NoGenerator for a condition that nothing is compared with."""
    definitions = call.definitions() if generator.conditions else None
    names = {} if definitions is None else {**definitions.sinks, **definitions.alerts}
    for name in generator.conditions:
        if name not in names:
            raise NoGenerator(
                f"CONDITIONS of {generate.FILE}: no sink or alert {name!r}; sinks and alerts: {listed(name, names)}"
            )


def _to_try_next(tandem: str) -> str:
    """What a person may type after the demo, in the folder where the demo was started."""
    steps = {
        f"{tandem} demo --once": "compare every exact answer with the expected one",
        f"{tandem} init my_shop": "make a small project: definitions, settings, sample events",
        f"{tandem} try sales my_shop/orders.jsonl --project my_shop": "answer its view from a file",
        f"{tandem} up --project my_shop": "run it; then feed, query, recompute as in the README",
    }
    return "\n".join(["All parts are stopped. Try next:", *(f"  {step}\n      {why}" for step, why in steps.items())])


def _sink_line(sink: str, checks: Sequence[Mapping[str, Any]]) -> str:
    """How what a sink has stored compared at each check, with differing values."""
    what = f"values of its {checks[-1]['target']}"
    return f"sink {sink}: {_agreement(checks, what)}{_examples(checks)}"


def _alert_line(alert: str, checks: Sequence[Mapping[str, Any]]) -> str:
    """How the rows for which an alert is raised compared at each check, with differing rows."""
    return f"alert {alert}: {_agreement(checks, 'rows')}; it is raised for {checks[-1]['raised']:,} now{_examples(checks)}"


def _agreement(checks: Sequence[Mapping[str, Any]], what: str) -> str:
    every, differ = (sum(check[name] for check in checks) for name in ("answers", "differ"))
    agree = f"{differ:,} of {every:,} {what} differ" if differ else f"all {every:,} {what} agree"
    return f"{agree}, at {', '.join(check['name'] for check in checks)}"


def _examples(checks: Sequence[Mapping[str, Any]]) -> str:
    return "".join(f"\n         {example}" for check in checks for example in check["examples"])


def _sentences(document: dict[str, Any]) -> str:
    """The document for a person."""
    lines = []
    for check in document["checks"]:
        agree = (
            f"all {check['answers']:,} answers agree"
            if not check["differ"]
            else f"{check['differ']:,} of {check['answers']:,} differ"
        )
        lines.append(f"{check['name']:<8} {agree}")
        lines += [f"         {example}" for example in check["examples"]]
    lines += [_sink_line(sink, checks) for sink, checks in document["sinks"].items()]
    lines += [_alert_line(alert, checks) for alert, checks in document["alerts"].items()]
    outputs = (*document["sinks"].values(), *document["alerts"].values())
    every = [*document["checks"], *(check for each in outputs for check in each)]
    lines.append(f"compared {sum(check['answers'] for check in every):,} values with the expected ones")
    measured = document["figures"]
    freshness = measured["freshness_s"]
    lines.append(
        f"freshness p50 {freshness['p50']} s, p99 {freshness['p99']} s; {document['events']:,} events in {measured['seconds']} s"
    )
    if "adopted" in document:
        lines.append("{rows:,} rows adopted, of which the topics have {overlap:,} again".format(**document["adopted"]))
    if "cluster" in document:
        lines.append(f"executors killed meanwhile: {document['cluster']['executors_killed']}")
    return "\n".join(lines)
