"""`tandem bench`: measure the cost of the same answers in Tandem and in Spark alone. bench/README.md explains the figures."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Group

from tandem.bench import adopt as adopting
from tandem.bench import start_up
from tandem.bench.commands import BenchProject, cores
from tandem.bench.decode import measuring as decoding
from tandem.bench.growth import measuring as growing_history
from tandem.bench.growth import report as grown
from tandem.bench.growth import why as explained
from tandem.bench.peers import report as compared
from tandem.bench.peers import rounds as peers
from tandem.bench.peers.contestant import Contestant, Resources
from tandem.bench.peers.contestants.archive import ARCHIVE
from tandem.bench.peers.contestants.batch import BATCH, BatchContestant
from tandem.bench.peers.contestants.registry import FRESH, SINKS
from tandem.bench.peers.provided import provide
from tandem.bench.scale import executors, micro_batch_keys
from tandem.bench.scale import report as scaled
from tandem.bench.scale.ground import machine
from tandem.bench.serving import growing, large, questions, rates
from tandem.bench.serving import measuring as asking
from tandem.bench.serving import report as asked
from tandem.bench.soak import load as soaking
from tandem.bench.soak import report as soaked
from tandem.bench.soak.load import Soak
from tandem.bench.together import measuring as together
from tandem.bench.together import report as answered_together
from tandem.cli.command.call import Call, Output
from tandem.cli.command.exclusive_state import emptied, own_state
from tandem.cli.command.signals import interrupted
from tandem.cli.dev.bench_cluster import on_cluster
from tandem.infra import clock, kafka
from tandem.infra.kafka import broker
from tandem.infra.process import background
from tandem.infra.settings import Settings
from tandem.views.errors import TandemError

_MEMORY = "2g"


def run(
    call: Call,
    what: Annotated[
        Literal["peers", "sinks", "together", "adopt", "decode", "growth", "scale", "serving", "soak", "start-up", "why"],
        typer.Argument(
            help="The benchmark. peers: Tandem, Kafka Streams, Flink SQL, Pathway and Structured Streaming on one topic; DuckDB, "
            "Polars, chdb and Spark SQL on its files. sinks: a topic that Tandem, Kafka Streams and Flink SQL keep equal to "
            "a view. together: answers over two topics, look-ups and pairs of events, beside Flink SQL and Structured Streaming. "
            "adopt: a table beside a Spark job that copies it. "
            "decode: each format, events a second. "
            "growth: recomputes of more events, views and keys. "
            "scale: executors and keys. serving: questions in process and over HTTP, and DuckDB over the same files. "
            "soak: a server under steady load. start-up: commands that do little. why: a row of 10 000 events among 16 million."
        ),
    ] = "peers",
    *,
    quick: Annotated[bool, typer.Option("--quick", help="One short round.")] = False,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=60,
            metavar="N",
            help="Duration of soak's load, 5 by default; or when peers, sinks and scale begin no further run: peers and sinks 38 "
            "by default, 10 with --quick, scale 45 and 16.",
        ),
    ] = None,
    keys: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="With serving: look-ups in one view of N keys that the server's memory has no room for, cold and warm.",
        ),
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            resolve_path=True,
            metavar="CHECKOUT",
            help="With decode: another checkout, whose code reads the same records by turns.",
        ),
    ] = None,
) -> Output:
    """Keep one view by Tandem and by its peers, in turn on the same topic and files, and compare what each needs.

    Each contestant uses the same cores and heap. A ratio states how many times better than Tandem a peer was. A full run takes
    up to 40 minutes on a machine that does nothing else. The peers are fetched at the first run. It succeeds only if every
    answer equals the truth; an interrupted run prints what it has measured (docs/peers.md).

    The other benchmarks take some minutes; `scale` begins its last run within 45. `adopt`, `decode`, `growth`, `scale` and
    `serving` fail if an answer is wrong. `soak` fails if a request gets no answer, or if the server's memory, open files or
    threads grow.
    """
    if minutes is not None and (what not in ("soak", "peers", "sinks", "scale") or (what == "soak" and quick)):
        raise TandemError(
            "--minutes needs WHAT to be soak, peers, sinks or scale, and soak cannot combine it with --quick",
            code="usage-invalid",
        )
    if keys is not None and what != "serving":
        raise TandemError("--keys needs WHAT to be serving", code="usage-invalid")
    if beside is not None and what != "decode":
        raise TandemError("--beside needs WHAT to be decode", code="usage-invalid")
    if keys is not None:
        return _large(call, keys)
    if what == "decode":
        return _decode(beside, quick=quick)
    if what == "peers":
        return _peers(call, minutes, (*FRESH, *BATCH, *ARCHIVE), peers.compare, quick=quick)
    if what == "sinks":
        return _peers(call, minutes, SINKS, peers.compare_sinks, quick=quick)
    if what == "together":
        return _together(call, quick=quick)
    if what == "soak":
        return _soak(call, minutes or (1.0 if quick else 5.0))
    if what == "scale":
        return _scale(call, minutes or (16.0 if quick else 45.0), quick=quick)
    return {"adopt": _adopt, "growth": _growth, "serving": _serving, "start-up": _start_up, "why": _why}[what](call, quick=quick)


def _decode(beside: Path | None, *, quick: bool) -> Output:
    with interrupted():
        formats = list(decoding.measure(decoding.QUICK if quick else decoding.FULL, beside))
    document = decoding.document(formats)
    return Output(document, decoding.table(formats), 0 if document["right"] else 1)


def _adopt(call: Call, *, quick: bool) -> Output:
    state = own_state(call.environ, "bench", "adopt")
    scale = adopting.QUICK if quick else adopting.FULL
    with interrupted(), emptied(state, before=lambda: None):
        rates = adopting.measure(state, scale, cores=cores(), memory=_MEMORY, environ=call.environ, say=call.say)
    document = adopting.document(rates)
    return Output(document, adopting.table(rates), 0 if document["right"] else 1)


def _growth(call: Call, *, quick: bool) -> Output:
    state = own_state(call.environ, "bench", "growth")
    scale = growing_history.QUICK if quick else growing_history.FULL
    with interrupted(), emptied(state, before=lambda: None):
        found = list(growing_history.measure(state, scale, cores=cores(), memory=_MEMORY, environ=call.environ, say=call.say))
    told = grown.document(found)
    return Output(told, Group(grown.table(found), *grown.bends(found), *grown.slopes(found)), 0 if told["right"] else 1)


def _why(call: Call, *, quick: bool) -> Output:
    state, events = own_state(call.environ, "bench", "why"), explained.QUICK if quick else explained.FULL
    with interrupted(), emptied(state, before=lambda: None):
        cost = explained.measure(state, events, cores=cores(), memory=_MEMORY, environ=call.environ, say=call.say)
    return Output(cost.to_json(), "\n".join(cost.lines()), 0 if cost.agrees else 1)


def _scale(call: Call, minutes: float, *, quick: bool) -> Output:
    state = own_state(call.environ, "bench", "scale")
    found: list[scaled.Found] = []
    over = False
    deadline = time.monotonic() + minutes * 60

    def more() -> bool:
        nonlocal over
        over = over or time.monotonic() > deadline
        return not over

    with interrupted(), emptied(state, before=lambda: _stop(state)), _broker(call, state) as connection:
        place = BenchProject(state, connection, cores(), _MEMORY)
        process = background.running(state / "kafka", broker.NAME)
        assert process is not None
        with on_cluster(place, call.environ, process.pid) as ground:
            keys, cluster = (micro_batch_keys.QUICK, executors.QUICK) if quick else (micro_batch_keys.FULL, executors.FULL)
            found += micro_batch_keys.measure(ground, keys, call.say, more)
            found += executors.measure(ground, cluster, call.say, more)
    on = machine()
    document = scaled.document(found, on, complete=not over)
    return Output(document, Group(*scaled.shown(found, on, complete=not over)), 1 if scaled.wrong(found) else 0)


def _serving(call: Call, *, quick: bool) -> Output:
    state = own_state(call.environ, "bench", "serving")
    with interrupted(), emptied(state, before=lambda: None):
        scale = questions.QUICK if quick else questions.FULL
        found = list(asking.measure(state, scale, call.say))
        growth = growing.measure(state, scale, call.say)
        looked_up = rates.measure(state / "rates", rates.QUICK if quick else rates.FULL, call.say)
    told = asked.document(found, growth, looked_up)
    return Output(told, Group(*asked.tables(found, growth, looked_up)), 0 if asked.agree(found) else 1)


def _large(call: Call, keys: int) -> Output:
    state = own_state(call.environ, "bench", "serving")
    with interrupted(), emptied(state, before=lambda: None):
        view = large.measure(state / "large", keys, call.say)
    return Output(asdict(view), "\n".join(view.lines()), 0 if view.right else 1)


def _start_up(call: Call, *, quick: bool) -> Output:
    state = own_state(call.environ, "bench", "start-up")
    with interrupted(), emptied(state, before=lambda: None):
        times = start_up.measured(state, 3 if quick else 9)
    return Output(start_up.document(times), Group(*start_up.lines(times)))


def _soak(call: Call, minutes: float) -> Output:
    state = own_state(call.environ, "bench", "soak")
    with interrupted(), emptied(state, before=lambda: None):
        found = soaking.soak(state / "project", Soak(minutes * 60), call.say)
    told = soaked.document(found)
    return Output(told, Group(*soaked.tables(found)), 0 if told["flat"] and not told["errors"] else 1)


def _peers(
    call: Call,
    minutes: float | None,
    parts: Sequence[Contestant | BatchContestant],
    compare: Callable[[peers.Arena, peers.PeersScale], Iterator[peers.Result]],
    *,
    quick: bool,
) -> Output:
    state = own_state(call.environ, "bench", "peers")
    scale, runs, complete = peers.QUICK if quick else peers.FULL, [], False
    scale = replace(scale, minutes=minutes or scale.minutes)
    provided = provide(call.say, environ=call.environ)
    machine: dict[str, object] = {}
    contestants: list[dict[str, object]] = []
    with (
        suppress(KeyboardInterrupt),
        interrupted(),
        emptied(state, before=lambda: _stop(state)),
        _broker(call, state) as connection,
    ):
        broker_process = background.running(state / "kafka", broker.NAME)
        assert broker_process is not None
        resources = Resources(cores=cores(), memory=_MEMORY)
        arena = peers.Arena(state, connection, broker_process.pid, resources, provided, call.say, clock.now())
        machine = peers.machine(arena)
        contestants = compared.described(parts, resources)
        for run in compare(arena, scale):
            runs.append(run)
            for problem in compared.problems([run]):
                call.say(problem)
        complete = True
    if not complete:
        call.say("interrupted; the results so far follow")
    whole = complete and not any(run.problem == peers.NO_TIME for run in runs)
    document = compared.document(runs, contestants, {**machine, "quick": quick, "complete": whole})
    shown = Group(*compared.tables(runs, contestants, machine), *compared.problems(runs))
    return Output(document, shown, 0 if complete and document["agree"] else 1)


def _together(call: Call, *, quick: bool) -> Output:
    state, runs = own_state(call.environ, "bench", "together"), list[together.Result]()
    complete, provided = False, provide(call.say, environ=call.environ)
    with (
        suppress(KeyboardInterrupt),
        interrupted(),
        emptied(state, before=lambda: _stop(state)),
        _broker(call, state) as connection,
    ):
        broker_process = background.running(state / "kafka", broker.NAME)
        assert broker_process is not None
        resources = Resources(cores=cores(), memory=_MEMORY)
        arena = peers.Arena(state, connection, broker_process.pid, resources, provided, call.say, clock.now())
        for run in together.measure(arena, together.QUICK if quick else together.FULL):
            runs.append(run)
            call.say(f"{run.question}, {run.system}: {run.problem or 'measured'}")
        complete = True
    if not complete:
        call.say("interrupted; the results so far follow")
    document = answered_together.document(runs)
    return Output(document, answered_together.tables(runs), 0 if complete and document["right"] else 1)


@contextmanager
def _broker(call: Call, state: Path) -> Iterator[kafka.BrokerConnection]:
    """A broker of the benchmark's own."""
    settings = Settings(state=str(state / "kafka"))
    with background.starting(settings.folder):
        process = broker.start(settings, environ=call.environ)
    try:
        yield kafka.connect(broker.address(settings))
    finally:
        background.stop(settings.folder, process, seconds=20)


def _stop(state: Path) -> None:
    """End the broker of a benchmark that was killed."""
    if process := background.running(state / "kafka", broker.NAME):
        background.stop(state / "kafka", process, seconds=20)
