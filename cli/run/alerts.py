"""`tandem alerts`: list alerts, and run them in the foreground."""

import json
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Thread
from typing import Annotated, Any, Final, Literal

import typer
from structlog.typing import FilteringBoundLogger

from tandem.batch.runtime import table_locks
from tandem.cli.command import signals
from tandem.cli.command.call import Call, Output
from tandem.cli.command.text_tables import below_lines, listing
from tandem.infra import clock
from tandem.infra.settings import Settings
from tandem.infra.supervision import restarts
from tandem.ledger.delta.addresses import Tables
from tandem.serving.connection import EVERY_S
from tandem.serving.memory.store import Store
from tandem.serving.sinks.alerts import book
from tandem.serving.sinks.alerts.book import AlertDocument, active_edges
from tandem.serving.sinks.alerts.definition import bind_alert
from tandem.serving.sinks.alerts.delivery import receivers_of
from tandem.serving.sinks.alerts.episodes import Edge
from tandem.serving.sinks.alerts.run import AlertRunner, alert_runner
from tandem.serving.sinks.alerts.webhook import edge_document
from tandem.serving.sinks.sink_threads import reason_of
from tandem.views.errors import DefinitionError, TandemError
from tandem.views.instant import utc_text
from tandem.views.project.project import Project

LOCK: Final = "alerts"
"""The lock and the lease of the process that runs a project's alerts."""


def run(
    call: Call,
    what: Annotated[
        Literal["list", "run"], typer.Argument(metavar="list|run", help="`list` shows what is stored; `run` follows and sends.")
    ] = "list",
    *,
    once: Annotated[bool, typer.Option("--once", help="With `run`: one step to the newest snapshot; send all, and end.")] = False,
    view: Annotated[str | None, typer.Option(metavar="NAME", help="With `list`: only alerts of this view.")] = None,
    key: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="With `list`: only rows with this value; may be repeated.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="With `list`: print each edge as it is stored from now on, until Ctrl-C.")
    ] = False,
) -> Output | None:
    """List the alerts that are raised and their newest edges; or run all alerts of the project until Ctrl-C.

    With --follow it prints a line for each edge that the running process stores, with --json a document a line.

    `run` follows the views of the live release. It stores the edges of each step with the token of the step in one commit, and
    then sends them to the receivers of the settings `alerts`, until each has acknowledged them. One process runs the alerts of a
    project; another one waits for it, at most `batch.lock_wait_s`.
    """
    settings = call.settings()
    if what == "list":
        if once:
            raise TandemError("--once is for `tandem alerts run`", code="usage-invalid")
        wanted = EdgesWanted(view, dict(_pairs(key or ())))
        if not follow:
            return _list(Tables.of(settings), wanted)
        _follow(call, Tables.of(settings), wanted)
        return None
    if view is not None or key or follow:
        raise TandemError(
            "`tandem alerts run` runs all alerts; --view, --key and --follow are for `tandem alerts list`", code="usage-invalid"
        )
    return _run(call, settings, call.definitions(), once=once)


def _run(call: Call, settings: Settings, project: Project, *, once: bool) -> Output | None:
    if not project.alerts:
        raise DefinitionError("the project has no alerts; docs/alerts.md shows how definitions.py declares one")
    for alert in project.alerts.values():
        bind_alert(alert, project.every_view[alert.view.name])
    store = Store(Tables.of(settings), secrets.randbits(64), settings.serving.memory_mb << 20)
    with _runner(settings, project, store, call.say, say=call.say) as (runner, check):
        if once:
            return _run_once(runner)

        def see(edges: Sequence[Edge]) -> None:
            for edge in edges:
                sys.stdout.write(f"{_line(call, edge)}\n")
            sys.stdout.flush()

        with signals.stopping() as stop:
            runner.run(stop, EVERY_S, see, check)
    return None


def keep(settings: Settings, project: Project, store: Store, stop: Event, log: FilteringBoundLogger) -> Thread:
    """Run the project's alerts over a store in a thread until `stop` is set, again after every failure; returns the thread.

    In a trial nothing is sent.
    """

    def warn(sentence: str) -> None:
        log.warning("an alert failed and is tried again", error=sentence)

    def run_again() -> None:
        terms, failures = restarts.terms(settings.supervisor), 0
        while not stop.is_set():
            try:
                with _runner(settings, project, store, warn, say=log.info) as (runner, check):
                    failures = 0
                    runner.run(stop, EVERY_S, lambda _: None, check)
            except BaseException as error:  # noqa: BLE001 - the sinks of the process go on, whatever it is
                failures += 1
                log.warning("the alerts failed and are tried again", error=reason_of(error))
                stop.wait(restarts.pause(failures, terms))

    thread = Thread(target=run_again, name="alerts", daemon=True)
    thread.start()
    return thread


@contextmanager
def _runner(
    settings: Settings, project: Project, store: Store, warn: Callable[[str], object], *, say: Callable[[str], None]
) -> Iterator[tuple[AlertRunner, Callable[[], None]]]:
    """The only runner of the project's alerts, and a check that it still is. Raises LockTimeout, LeaseLost by the check."""
    receivers = () if settings.sinks.trial else receivers_of(settings.alerts, clock.now)
    with table_locks.locked(settings, LOCK, what="`tandem alerts run`", now=clock.now, say=say) as tables:

        def check() -> None:
            for lease in tables.leases.values():
                lease.check()

        yield alert_runner(store, project.alerts.values(), receivers, tables=tables, clock=clock.now, warn=warn), check


def _run_once(runner: AlertRunner) -> Output:
    failures: list[str] = []
    runner = replace(runner, warn=failures.append)
    edges = [*runner.step(runner.store.pinned())]
    acknowledged = runner.deliver()
    if failures:
        raise TandemError("; ".join(failures))
    lines = [*map(_sentence, edges), f"{len(edges)} new, {acknowledged} acknowledged"]
    return Output({"edges": [edge_document(edge) for edge in edges], "acknowledged": acknowledged}, "\n".join(lines))


@dataclass(frozen=True)
class EdgesWanted:
    """The edges of a view, if one is named, and of rows with these values."""

    view: str | None
    place: Mapping[str, str]

    def fit(self, edge: Edge) -> bool:
        """Whether an edge is one of them."""
        here = all(name in edge.place and str(edge.place[name]) == value for name, value in self.place.items())
        return here and (self.view is None or edge.view == self.view)

    def of(self, document: AlertDocument) -> list[Edge]:
        """The stored edges of an alert, in their order, without quiet ones."""
        return [each.edge for each in document.edges if self.fit(each.edge) and not each.edge.quiet]


def _documents(tables: Tables) -> dict[str, AlertDocument]:
    """What is stored of each alert that has ever run."""
    documents = ((name, book.load_document(tables, name)) for name in book.names(tables))
    return {name: document for name, document in documents if document is not None}


def _list(tables: Tables, wanted: EdgesWanted) -> Output:
    stored, documents, active = _documents(tables), [], list[Edge]()
    for name, document in stored.items():
        of_alert = [edge for edge in active_edges(document) if wanted.fit(edge)]
        documents.append(_document(name, document, of_alert))
        active += of_alert
    recent = [edge for document in stored.values() for edge in wanted.of(document)]
    recent.sort(key=lambda edge: edge.at, reverse=True)
    faults = [f"{each['alert']}: {who}: {fault}" for each in documents for who, fault in each["faults"].items()]
    lines = [f"{len(active)} raised", *(f"not delivered: {fault}" for fault in faults)]
    shown = below_lines(lines, listing([_row(edge) for edge in recent]))
    return Output({"alerts": documents, "recent": [edge_document(edge) for edge in recent]}, shown)


def _follow(call: Call, tables: Tables, wanted: EdgesWanted) -> None:
    """Print each edge that is stored from now on, in the order of their times."""
    stored = _documents(tables)
    active = sum(wanted.fit(edge) for document in stored.values() for edge in active_edges(document))
    call.say(f"{active} raised; each new edge follows until Ctrl-C")
    with signals.stopping() as stop:
        while not stop.wait(EVERY_S):
            before, stored = _ids(stored), _documents(tables)
            edges = [edge for document in stored.values() for edge in wanted.of(document) if edge.id not in before]
            for edge in sorted(edges, key=lambda edge: edge.at):
                sys.stdout.write(f"{_line(call, edge)}\n")
            sys.stdout.flush()


def _ids(stored: Mapping[str, AlertDocument]) -> set[str]:
    return {each.edge.id for document in stored.values() for each in document.edges}


def _document(name: str, stored: AlertDocument, active: Sequence[Edge]) -> dict[str, Any]:
    return {
        "alert": name,
        "raised": [edge_document(edge) for edge in active],
        "waiting": sum(episode.edge is None for episode in stored.episodes),
        "unsent": stored.lacking,
        "faults": stored.faults,
    }


def _row(edge: Edge) -> dict[str, Any]:
    place = ", ".join(f"{name}={value}" for name, value in edge.place.items())
    return {
        "at": utc_text(edge.at),
        "alert": edge.alert,
        "what": edge.kind,
        "because": edge.because,
        "row": place,
        "text": edge.text,
    }


def _line(call: Call, edge: Edge) -> str:
    return json.dumps(edge_document(edge)) if call.json else _sentence(edge)


def _sentence(edge: Edge) -> str:
    place = ", ".join(f"{name}={value}" for name, value in edge.place.items())
    return f"{edge.kind} {edge.alert} of {edge.view} ({place}) because of {edge.because}: {edge.text}"


def _pairs(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign:
            raise TandemError(f"--key {text!r}; write NAME=VALUE, and None for NULL", code="usage-invalid")
        yield name, value
