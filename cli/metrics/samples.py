"""The samples of each metric, read in the state of a project."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tandem.cli.command.call import Call
from tandem.cli.run import part_processes
from tandem.cli.run.status.document import status_document
from tandem.infra.kafka import broker
from tandem.infra.settings import Settings
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import rates
from tandem.ledger.publish.audits import Audit, Audits
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.rates import Rate, RunRates
from tandem.ledger.publish.releases import Releases
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.provenance import age
from tandem.serving.sinks.alerts import book
from tandem.serving.sinks.alerts.book import AlertDocument
from tandem.serving.status.part_state import STATES
from tandem.speed import progress
from tandem.speed.progress import MicroBatches

Sample = tuple[tuple[str, ...], float]
"""The values of the labels, in the order of the labels, and the number."""


@dataclass(frozen=True)
class StoredBytes:
    """One table's active files."""

    kind: str
    name: str
    files: int
    bytes: int


@dataclass(frozen=True)
class ProjectState:
    """A project at the time `now`: the document of `tandem status`, the newest publication, and rows of journals.

    * `expected`: the processes that `up` starts.
    * `micro_batches`: those of the speed layer since it started; None if it does not run.
    * `stored`: the existing tables of the live release.
    * `alerts`: what is stored of each alert that has ever run.
    """

    now: datetime
    status: Mapping[str, Any]
    expectations: tuple[str, ...]
    published: Publication | None
    audits: Sequence[Audit]
    runs: Sequence[Rate]
    stored: Sequence[StoredBytes]
    micro_batches: Sequence[MicroBatches]
    alerts: Mapping[str, AlertDocument]


def look(call: Call, *, now: datetime) -> ProjectState:
    """Read the state from the tables and the broker. Raises TandemError, also for invalid definitions in the working tree."""
    settings = call.settings()
    tables = Tables.of(settings)
    published = Publications(tables).latest()
    reader = None if published is None else Reader(tables)
    return ProjectState(
        now,
        status_document(call, settings, tables, reader, now=now),
        _expected(settings),
        published,
        Audits(tables).history(),
        RunRates(tables).history(),
        [] if published is None else list(_stored(tables, published)),
        running.sources if (running := progress.read(settings.folder)) else (),
        {name: document for name in book.names(tables) if (document := book.load_document(tables, name)) is not None},
    )


def _expected(settings: Settings) -> tuple[str, ...]:
    return (part_processes.SPEED,) if settings.kafka.bootstrap else (broker.NAME, part_processes.SPEED)


def _stored(tables: Tables, published: Publication) -> Iterator[StoredBytes]:
    release = Releases(tables).load(published.release)
    for source, decoder in release.sources.items():
        yield from _table(tables, "archive", source, tables.archive(source))
        yield from _table(tables, "events", source, tables.events(source, decoder))
        yield from _table(tables, "quarantine", source, tables.quarantine(source, decoder))
        yield from _table(tables, "realtime", source, tables.realtime(release.number, source))
    for view, batch_view in published.views.items():
        yield from _table(tables, "view", view, batch_view.address(tables, view))


def _table(tables: Tables, kind: str, name: str, address: str) -> Iterator[StoredBytes]:
    if handle := delta_tables.open_table(tables, address):
        sizes = delta_tables.files(handle)
        yield StoredBytes(kind, name, len(sizes), sum(sizes.values()))


Samples = Callable[[ProjectState], Iterator[Sample]]


def of_sources(read: Callable[[Mapping[str, Any]], float | None]) -> Samples:
    """A value of each source in the status document, left out where it is null."""
    return lambda seen: _known(((name,), read(source)) for name, source in seen.status["sources"].items())


def of_views(read: Callable[[Mapping[str, Any]], float | None]) -> Samples:
    """A value of each view in the status document, left out where it is null."""
    return lambda seen: _known(((name,), read(view)) for name, view in seen.status["views"].items())


def of_sinks(read: Callable[[Mapping[str, Any]], float | None]) -> Samples:
    """A value of each sink that has run here, left out where it is null."""
    return lambda project: _known(((sink["sink"],), read(sink)) for sink in project.status["sinks"])


def of_alerts(read: Callable[[AlertDocument], float]) -> Samples:
    """A value of each alert that has ever run."""
    return lambda project: (((name,), read(document)) for name, document in project.alerts.items())


def of_receivers(read: Callable[[AlertDocument, str], float]) -> Samples:
    """A value of each alert and receiver that has edges to get, or has failed."""
    return lambda project: (
        ((name, receiver), read(document, receiver))
        for name, document in project.alerts.items()
        for receiver in sorted({*document.faults, *(left for edge in document.edges for left in edge.left)})
    )


def of_hot_tails(read: Callable[[Mapping[str, Any]], float]) -> Samples:
    """A value of each hot tail in the status document; none for a source without one."""
    return of_sources(lambda source: None if source["hot"] is None else read(source["hot"]))


def _known(samples: Iterable[tuple[tuple[str, ...], float | None]]) -> Iterator[Sample]:
    yield from ((labels, number) for labels, number in samples if number is not None)


def until_loss(name: str) -> Samples:
    """A value of the prediction of loss of each source, left out where there is none."""
    return of_sources(lambda source: source["until_loss"] and source["until_loss"][name])


def processes(seen: ProjectState) -> Iterator[Sample]:
    """Whether each expected or running process runs."""
    running = {process["name"] for process in seen.status["processes"]}
    yield from (((name,), name in running) for name in sorted({*seen.expectations, *running}))


def parts(read: Callable[[Mapping[str, Any]], float | None]) -> Samples:
    """A value of each part of the project, left out where it is null."""
    return lambda seen: _known(((part["part"],), read(part)) for part in seen.status["parts"])


def part_states(seen: ProjectState) -> Iterator[Sample]:
    """1 for the state of each part, 0 for each state that it is not in."""
    for part in seen.status["parts"]:
        yield from (((part["part"], state), state == part["state"]) for state in STATES)


def log_ends(seen: ProjectState) -> Iterator[Sample]:
    """The end of each source's log, by topic and partition."""
    for name, source in seen.status["sources"].items():
        yield from (((name, *place), offset) for place, offset in _places(source["log_end"]))


def open_transactions(read: Callable[[Mapping[str, Any], datetime], float | None]) -> Samples:
    """A value of each partition whose committed records end at an open transaction, left out where it is null."""
    return lambda state: _known(
        ((name, each["topic_id"], str(each["partition"])), read(each, state.now))
        for name, source in state.status["sources"].items()
        for each in source["open_transactions"] or []
    )


def positions(seen: ProjectState) -> Iterator[Sample]:
    """Each view's cut and the position of its merged answers, by topic and partition."""
    for name, view in seen.status["views"].items():
        for layer, position in (("batch", view["cut"]), ("merged", view["positions"])):
            yield from (((name, layer, *place), offset) for place, offset in _places(position))


def _places(position: Mapping[str, Mapping[str, int]] | None) -> Iterator[tuple[tuple[str, str], int]]:
    for topic, partitions in (position or {}).items():
        yield from (((topic, number), offset) for number, offset in partitions.items())


def records(seen: ProjectState) -> Iterator[Sample]:
    """Records of each source, by outcome and reason."""
    for name, source in seen.status["sources"].items():
        yield (name, "decoded", ""), source["decoded"]
        yield (name, "other_source", ""), source["others"]
        yield (name, "skipped", ""), source["skipped"]
        yield from (((name, "quarantined", reason), number) for reason, number in source["quarantined"].items())


def cut_ages(seen: ProjectState) -> Iterator[Sample]:
    """Seconds since the newest event below the cut of each source was appended."""
    newest = seen.published.newest if seen.published else {}
    yield from _known(((name,), age(at, now=seen.now)) for name, at in newest.items())


def published(read: Callable[[Any], float]) -> Samples:
    """A value of the newest publication; none where nothing is published."""
    return lambda seen: iter([((), read(seen.published))] if seen.published else [])


def audited(figure: Callable[[Any], float]) -> Samples:
    """A value of the newest audit of each view and measure."""

    def samples(seen: ProjectState) -> Iterator[Sample]:
        newest = {(audit.view, audit.measure): audit for audit in seen.audits if audit.figures}
        yield from ((labels, figure(audit)) for labels, audit in newest.items())

    return samples


def expectations(project: ProjectState) -> Iterator[Sample]:
    """How many rows do not meet each condition in the newest check of its view."""
    newest = {(audit.view, audit.expectation.condition): audit for audit in project.audits if audit.expectation}
    versions = {audit.view: audit.version for audit in project.audits if audit.expectation}
    for (view, condition), audit in newest.items():
        if audit.expectation and audit.version == versions[view]:
            yield (view, condition, audit.expectation.severity), audit.expectation.unmet


def ran(read: Callable[[rates.Rate], float]) -> Samples:
    """A value of the newest run of each source and kind."""
    return lambda seen: iter([(key, read(run)) for key, run in _newest_runs(seen).items()])


def estimated(seen: ProjectState) -> Iterator[Sample]:
    """The prediction for the newest run by the runs before it, if there were any."""
    for (source, kind), run in _newest_runs(seen).items():
        before = [one for one in seen.runs if one.at < run.at]
        if told := rates.estimate(before, source, kind, rows=run.rows, views=run.views):
            yield (source, kind), told.seconds


def _newest_runs(seen: ProjectState) -> dict[tuple[str, str], rates.Rate]:
    return {(run.source, run.kind): run for run in seen.runs}


def stored(read: Callable[[Any], float]) -> Samples:
    """A value of each existing table of the live release."""
    return lambda seen: iter([((one.kind, one.name), read(one)) for one in seen.stored])


def triggers(seen: ProjectState) -> Iterator[Sample]:
    """Micro-batches of each release and source."""
    yield from (((str(one.release), one.source), one.triggers) for one in seen.micro_batches)


def phases(seen: ProjectState) -> Iterator[Sample]:
    """Seconds that each phase of the micro-batches took."""
    for one in seen.micro_batches:
        yield from (((str(one.release), one.source, phase), spent) for phase, spent in one.seconds.items())


def age_of(written: str | None, now: datetime) -> float | None:
    """Seconds since a timestamp in the status document."""
    return None if written is None else max(0.0, (now - datetime.fromisoformat(written)).total_seconds())


def seconds(written: str | None) -> float | None:
    """Seconds since 1970 of a timestamp in the status document."""
    return None if written is None else datetime.fromisoformat(written).timestamp()
