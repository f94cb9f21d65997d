"""The document of `tandem status`."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from tandem.cli.command.call import Call
from tandem.cli.run import part_processes
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.hot.report import hot_tails
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.counts import NOTHING, Counts, plus
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.log.history import load_history
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish.releases import Releases
from tandem.ledger.united_positions import plain
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.provenance import age, written
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.snapshot import Snapshot, provenance_of
from tandem.serving.sinks.alerts.stands import alert_stands
from tandem.serving.status.part_signs import part_states
from tandem.serving.status.part_state import BROKER, PartState
from tandem.serving.status.rejected_tails import ArchiveTail, archive_tail, tail_of_rejects
from tandem.serving.status.releases import standing_releases
from tandem.serving.status.sinks import sink_states
from tandem.serving.status.sources import ArchivePosition, LogEnd, archived, gap_document, log_ends, standing, unarchived
from tandem.serving.status.topics import topics_document
from tandem.speed import progress
from tandem.views.instant import utc_text
from tandem.views.source.source import Source
from tandem.views.source.united_source import names_of
from tandem.views.start import start_document
from tandem.views.view import View

_MOMENT_S: Final = 2


def status_document(call: Call, settings: Settings, tables: Tables, reader: Reader | None, *, now: datetime) -> dict[str, Any]:
    """The running parts, and the published state at the reader's snapshot; without a reader nothing is published."""
    running = progress.read(settings.folder)
    waiting = [msgspec.to_builtins(one) for one in running.waiting] if running else []
    states = part_states(settings, now=now, snapshot=None if reader is None else reader.snapshot())
    settings = _patient(settings, states)
    sinks = sink_states(settings.folder, None if reader is None else reader.snapshot(), now=now)
    found = {
        "project": str(call.project),
        "state": settings.state,
        **part_processes.document(settings),
        "parts": [one.to_json() for one in states],
        "waiting": waiting,
        "sinks": [each.to_json() for each in sinks],
        "alerts": [each.to_json() for each in alert_stands(tables)],
    }
    if reader is None:
        defined = call.definitions().sources.values()
        ends = log_ends(settings, defined)
        beside = _beside_counts(settings, tables, None, defined, ends, now=now)
        times = {"age_s": None, "watermark": None}
        starts = {source.name: start_document(source.start) for source in defined}
        sources = {
            name: _source(NOTHING, RealtimeTail(LOG_START, LOG_START), ArchivePosition(), end, now=now)
            | times
            | {"start": starts[name], "history": None}
            | beside[name]
            | {"rejected": None}
            for name, end in ends.items()
        }
        return {**found, "publication": None, "release": None, "sources": sources, "views": {}, "standing": []}

    snapshot, project, erasures = reader.snapshot(), reader.project(), Erasures(tables)
    publication = snapshot.publication
    decoders = Releases(tables).load(publication.release).sources
    ends = log_ends(settings, project.sources.values())
    beside = _beside_counts(settings, tables, publication.release, project.sources.values(), ends, now=now)
    sources = {
        name: _source(
            publication.counts.get(name, NOTHING),
            snapshot.tails[name],
            archived(tables, name, decoders[name]),
            end,
            now=now,
            repaired=publication.repaired.get(name),
            gaps=[gap_document(gap, accepted=accepted) for gap, accepted in snapshot.gaps_of(name).items()],
        )
        | {"age_s": age(snapshot.newest(name), now=now), "watermark": written(snapshot.watermark(name))}
        | {"start": start_document(project.sources[name].start), "history": _history(erasures, project.sources[name], snapshot)}
        | beside[name]
        | {"rejected": _rejects_of(name, snapshot.tails[name], archive_tail(tables, name, decoders[name]))}
        for name, end in ends.items()
    }
    views = {name: _view(snapshot, view, ends) for name, view in project.every_view.items()}
    found |= {"publication": publication.number, "release": publication.release, "sources": sources, "views": views}
    kept_up = [one.to_json() for one in standing_releases(tables, publication, days=settings.keep.release_days, now=now)]
    return {**found, "standing": kept_up}


def _patient(settings: Settings, states: Iterable[PartState]) -> Settings:
    """The settings to poll the broker: with a short timeout if its state shows that it will hardly answer."""
    if not any(one.red and one.part == BROKER for one in states):
        return settings
    brief = msgspec.structs.replace(settings.kafka, timeout_s=min(settings.kafka.timeout_s, _MOMENT_S))
    return msgspec.structs.replace(settings, kafka=brief)


def _source(
    below: Counts,
    tail: RealtimeTail,
    there: ArchivePosition,
    end: LogEnd,
    *,
    now: datetime,
    repaired: int | None = None,
    gaps: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    stands, answered = standing(below, tail, there), plus(below, tail.counts)
    return {
        "decoded": stands.decoded,
        "quarantined": dict(stands.counts.quarantined),
        "others": stands.counts.others,
        "skipped": stands.counts.skipped,
        "late": answered.late,
        "ahead": answered.ahead,
        "off_calendar": answered.off_calendar,
        "rounded": answered.rounded,
        "duplicates": answered.duplicates,
        "conflicts": answered.conflicts,
        "repaired": repaired,
        "archived": there.records,
        "log_end": None if end.position is None else end.position.to_json(),
        "log_end_problem": end.problem,
        "open_transactions": None if end.problem else [{**each.to_json(), "warning": each.warning(now)} for each in end.blocked],
        "behind_bridge": tail.behind_bridge,
        "identities_since": None if tail.identities_since is None else utc_text(tail.identities_since),
        "problem": tail.problem,
        "gaps": list(gaps),
    }


def _beside_counts(
    settings: Settings,
    tables: Tables,
    release: int | None,
    sources: Iterable[Source],
    ends: Mapping[str, LogEnd],
    *,
    now: datetime,
) -> dict[str, dict[str, Any]]:
    """Of each source its topics, its hot tail, and how long its unarchived records are safe: null without the broker's answer."""
    named = {source.name: source for source in sources}
    polled = [source for name, source in named.items() if not ends[name].problem]
    losses = {name: loss.to_json() for name, loss in unarchived(settings, tables, polled, now=now).items()}
    hot = {name: None if tail is None else tail.to_json() for name, tail in hot_tails(settings, release, ends).items()}
    return {
        name: {
            **topics_document(ArchiveLedger(tables, name).topic_names(), named[name], end),
            "until_loss": losses.get(name),
            "hot": hot[name],
        }
        for name, end in ends.items()
    }


def _history(erasures: Erasures, source: Source, snapshot: Snapshot) -> dict[str, Any] | None:
    """The history of a source: what has expired until now."""
    history = load_history(erasures, source.name, snapshot.publication.cut(source.name)).of(source)
    return None if history is None else history.to_json()


def _rejects_of(source: str, tail: RealtimeTail, archive: ArchiveTail) -> dict[str, Any] | None:
    """The rejects of a source that has fallen silent."""
    rejects = tail_of_rejects(tail, archive)
    return None if rejects is None else rejects.to_json(source)


def _view(snapshot: Snapshot, view: View, ends: Mapping[str, LogEnd]) -> dict[str, Any]:
    live, tail = snapshot.batch(view), snapshot.tail(view)
    lags = [ends[name].lag(snapshot.tails[name].end) for name in names_of(view.source.name)]
    return {
        "fingerprint": live.fingerprint,
        "batch_version": live.version,
        "cut": plain(tail.cut, view.source).to_json(),
        "positions": plain(tail.end, view.source).to_json(),
        "lag": None if tail.problem or None in lags else sum(lag for lag in lags if lag is not None),
        "after_final": snapshot.after_final(view),
        "kept_from": None if live.first_window is None else utc_text(live.first_window),
        "exactness": provenance_of(snapshot, view, "merged", {}).exactness.to_json(),
    }
