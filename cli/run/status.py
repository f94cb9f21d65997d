"""`tandem status`: running parts, the position of each source and view, and the outcome of records."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
import typer

from tandem.cli.command.call import UNHEALTHY, Call, Output
from tandem.cli.command.drift import working_tree_drift
from tandem.cli.command.text_tables import aligned
from tandem.cli.run import part_processes
from tandem.cli.run.report_loop import repeat_report
from tandem.infra import clock
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.hot.report import HotTailState, hot_tails
from tandem.ledger.log.counts import NOTHING, Counts, plus
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Releases
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.provenance import age, written
from tandem.serving.read.snapshot import RealtimeTail, Snapshot, provenance_of
from tandem.serving.read.snapshot_follower import UNPUBLISHED
from tandem.serving.status.part_signs import part_states
from tandem.serving.status.part_state import BROKER, PartState
from tandem.serving.status.rejected_tails import ArchiveTail, archive_tail, tail_of_rejects
from tandem.serving.status.releases import standing_releases
from tandem.serving.status.sinks import sink_states
from tandem.serving.status.sources import ArchivePosition, LogEnd, archived, gap_document, log_ends, standing, unarchived
from tandem.serving.status.topics import topics_document, topics_sentence
from tandem.speed import progress
from tandem.views.counted import counted
from tandem.views.instant import utc_text
from tandem.views.source.source import Source
from tandem.views.start import start_document
from tandem.views.view import View

_MOMENT_S: Final = 2


def run(
    call: Call,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it again every two seconds until Ctrl-C; with --json a document a line.")
    ] = False,
) -> Output:
    """Show the running parts, and the progress of each source and view. Exits with 3 if a part is red or a source silent.

    A part is red if it is dead, stuck or given up; a source is silent if more than half of its newest records are rejected.

    The document of `--json` has, for the parts:

    * `parts`: each part's state (`running`, `behind`, `starting`, `stuck`, `dead`, `given_up` or `not_started`); whether it is
      `red`, since when, why, how to fix it, and how many seconds ago it last worked.

    For each source:

    * `decoded`, `quarantined`, `others` (records of other sources in the same topics), `skipped` (before the source's
      start, or tombstones that it skips): number of records, from whichever layer has read further. A record with several
      events counts once; each of its events that is rejected alone is quarantined, too.
    * `duplicates`, `conflicts`: number of events among those that merged answers count.
    * `late`: the same; only the speed layer labels events late, because only it reads them in order.
    * `ahead`: number of events, duplicates included, whose time is more than the source's `clock_skew` after their record's
      timestamp. They count, but do not move the watermark.
    * `off_calendar`: number of events, duplicates included, whose record's timestamp lies before 1582-10-15 or after the year
      9999, as nanoseconds for milliseconds do. They count, with the nearest time as `_append_time`.
    * `rounded`: number of values of events, duplicates included, that were rounded to the `Scale` of their field.
    * `repaired`: duplicates, older than the dedup window, that the last recompute removed from the answers; null if unknown.
    * `watermark`: the watermark of merged answers.
    * `start`: where the source starts, if its definition says: as declared, and the first offsets that count; else null.
    * `positions`: where merged answers stand.
    * `identities_since`: since when duplicates are recognised, if `speed.identities_mb` is too small for `dedup_window`;
      else null.
    * `behind_bridge`: the speed layer skipped a stretch of the log; answers follow when a recompute has published that
      stretch.
    * `topics`: in the order of the log, each with `name`, `id` and `state`: `read`, `new`, `gone`, or `unknown` while the broker
      does not answer. A topic that was created again has another id. `topic_pattern` is the pattern of their names, or null.
    * `log_end`, `lag`: null while the broker does not answer; `log_end_problem` is the reason.
    * `open_transactions`: where committed records end at a transaction that is open: `topic`, `topic_id`, `partition`, the
      `offset` where it begins, the number of `offsets` that wait from there on, `since` when, its `transactional_id`, and a
      `warning` after a minute. Neither `log_end` nor `lag` counts these offsets; null while the broker does not answer.
    * `rejected`: set if more than half of the source's newest records are rejects, and the exit code is 3: how many `records`
      decided, `rejects` by reason, `since` which position, the likely `cause` in words, a `sample` that the quarantine has, and
      the `warning` that sums this up. It is null again as soon as the newest records decode.
    * `hot`: the hot tail (`serving.hot`) of a server on this machine, null without one: how many offsets it counts `ahead` of
      the commits, why it stands `aside` if so, the `views_aside` with what each needs, the number of `compared` views and of
      `mismatched` rows, which must be 0, and its `bytes` of memory.
    * `waiting`: since when and why the speed layer waits: a broker or schema registry does not answer, or the registry lacks a
      schema to which another one refers.
    * `until_loss`: `seconds` and `offsets` until the topic's retention may delete records that are not archived, null without
      a limit or a backlog; the number of `lost` offsets; and a `warning`, if any.
    * `gaps`: the losses that `archive` has recorded, each with its name, and a `warning` that explains how to continue until a
      recompute has accepted the gap.

    For each view:

    * `after_final`: number of events that arrived in windows that answers had already labelled final.
    * `exactness`: how exact merged rows are, and why.

    For sinks that have run in this state folder:

    * `sinks`: the `state` of each (`running`, `failing` or `stopped`); its target's `token`, and the `position` of its commits;
      by how many offsets (`lag`) and seconds (`lag_s`) the target is behind answers; when its newest step was (`at`); `steps`,
      written `rows`, `gone` rows, `comparisons` of all rows and `errors` since its process began; and the newest `error`.

    For releases:

    * `standing`: the releases that are kept up to date beside the live one, and by how many offsets their realtime views are
      behind it; if one failed recently, the reason.
    """
    if watch:
        return repeat_report(call, lambda say: _report(call, say))
    return _report(call, call.say)


def _report(call: Call, say: Callable[[str], object]) -> Output:
    settings = call.settings()
    tables, now = Tables.of(settings), clock.now()
    if Publications(tables).latest() is None:
        say(UNPUBLISHED)
        found = document(call, settings, tables, None, now=now)
        return Output({**found, "definitions": None}, _shown(found), _code(found))
    reader = Reader(tables)
    found = document(call, settings, tables, reader, now=now)
    return Output({**found, "definitions": working_tree_drift(call, reader).to_json()}, _shown(found), _code(found))


def _code(found: Mapping[str, Any]) -> int:
    silent = any(source["rejected"] for source in found["sources"].values())
    return UNHEALTHY if silent or any(part["red"] for part in found["parts"]) else 0


def document(call: Call, settings: Settings, tables: Tables, reader: Reader | None, *, now: datetime) -> dict[str, Any]:
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
            | {"start": starts[name]}
            | beside[name]
            | {"rejected": None}
            for name, end in ends.items()
        }
        return {**found, "publication": None, "release": None, "sources": sources, "views": {}, "standing": []}

    snapshot, project = reader.snapshot(), reader.project()
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
        | {"start": start_document(project.sources[name].start)}
        | beside[name]
        | {"rejected": _rejects_of(name, snapshot.tails[name], archive_tail(tables, name, decoders[name]))}
        for name, end in ends.items()
    }
    views = {name: _view(snapshot, view, ends[view.source.name]) for name, view in project.every_view.items()}
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
        name: {**topics_document(tables, named[name], end), "until_loss": losses.get(name), "hot": hot[name]}
        for name, end in ends.items()
    }


def _rejects_of(source: str, tail: RealtimeTail, archive: ArchiveTail) -> dict[str, Any] | None:
    """The rejects of a source that has fallen silent."""
    rejects = tail_of_rejects(tail, archive)
    return None if rejects is None else rejects.to_json(source)


def _view(snapshot: Snapshot, view: View, end: LogEnd) -> dict[str, Any]:
    live, tail = snapshot.batch(view), snapshot.tails[view.source.name]
    return {
        "fingerprint": live.fingerprint,
        "batch_version": live.version,
        "cut": tail.cut.to_json(),
        "positions": tail.end.to_json(),
        "lag": None if tail.problem else end.lag(tail.end),
        "after_final": snapshot.after_final(view),
        "exactness": provenance_of(snapshot, view, "merged", {}).exactness.to_json(),
    }


def _shown(document: dict[str, Any]) -> str:
    """The document for a person."""
    sources = [
        {
            "source": name,
            "decoded": source["decoded"],
            "quarantined": sum(source["quarantined"].values()),
            **({"skipped": source["skipped"]} if any(each["skipped"] for each in document["sources"].values()) else {}),
            **({"others": source["others"]} if any(one["others"] for one in document["sources"].values()) else {}),
            **({"ahead": source["ahead"]} if any(one["ahead"] for one in document["sources"].values()) else {}),
            **(
                {"off calendar": source["off_calendar"]}
                if any(each["off_calendar"] for each in document["sources"].values())
                else {}
            ),
            **({"rounded": source["rounded"]} if any(each["rounded"] for each in document["sources"].values()) else {}),
            "duplicates": source["duplicates"],
            "archived": source["archived"],
            "log end": _total(source["log_end"]),
            "newest": None if source["age_s"] is None else f"{source['age_s']:.1f} s ago",
            "watermark": source["watermark"],
            **({"hot": _hot_cell(source["hot"])} if any(one["hot"] for one in document["sources"].values()) else {}),
        }
        for name, source in document["sources"].items()
    ]
    views = [
        {
            "view": name,
            "batch": view["batch_version"],
            "cut": _total(view["cut"]),
            "position": _total(view["positions"]),
            "lag": view["lag"],
            # If every measure is an estimate, rows have no label of their own.
            "rows": (view["exactness"]["rows"] or view["exactness"]["label"]).replace("_", " "),
        }
        for name, view in document["views"].items()
    ]
    sinks = [
        {
            "sink": sink["sink"],
            "view": sink["view"],
            "state": sink["state"],
            "position": _total(sink["position"]),
            "lag": sink["lag"],
            "behind": None if sink["lag_s"] is None else f"{sink['lag_s']:.0f} s",
            "rows": sink["rows"],
            "errors": sink["errors"],
        }
        for sink in document["sinks"]
    ]
    problems = [part["sentence"] for part in document["parts"] if part["red"]]
    problems += filter(None, (sink["problem"] for sink in document["sinks"]))
    problems += [source["rejected"]["warning"] for source in document["sources"].values() if source["rejected"]]
    problems += [
        f"{name}: {source[kind]}"
        for name, source in document["sources"].items()
        for kind in ("problem", "log_end_problem")
        if source[kind]
    ]
    problems += filter(None, (topics_sentence(name, source) for name, source in document["sources"].items()))
    problems += [
        f"{name}: answers do not advance until a recompute publishes the events that the speed layer skipped"
        for name, source in document["sources"].items()
        if source["behind_bridge"]
    ]
    problems += [
        f"{name}: duplicates of events counted before {source['identities_since']} are counted until the next recompute; raise "
        "speed.identities_mb or shorten the source's dedup_window"
        for name, source in document["sources"].items()
        if source["identities_since"]
    ]
    problems += [
        f"{name}: {source['until_loss']['warning']}"
        for name, source in document["sources"].items()
        if source["until_loss"] and source["until_loss"]["warning"]
    ]
    problems += [
        f"{name}: {transaction['warning']}"
        for name, source in document["sources"].items()
        for transaction in source["open_transactions"] or []
        if transaction["warning"]
    ]
    problems += [
        sentence
        for name, source in document["sources"].items()
        if source["hot"]
        for sentence in HotTailState(**source["hot"]).problems(name)
    ]
    problems += [gap["warning"] for source in document["sources"].values() for gap in source["gaps"] if gap["warning"]]
    problems += [
        f"{one['source']}: the speed layer has been waiting since {one['since']}: {one['why']}" for one in document["waiting"]
    ]
    number = document["publication"]
    problems += _late_lines(document)
    published = [f"publication {number} of release {document['release']}"] if number else []
    for one in document["standing"]:
        behind = ", ".join(f"{counted(lag, 'offset')} of {name} behind" for name, lag in one["lag"].items())
        published.append(f"release {one['release']} {one['stage']}: {one['why'] or behind}")
    sections = (part_processes.sentences(document), aligned(sources), aligned(views), aligned(sinks), [*published, *problems])
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _late_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """One line about late events, of which a load of history has many."""
    late = [
        f"{counted(source['late'], 'late event')} of {name}" for name, source in document["sources"].items() if source["late"]
    ]
    late += [
        f"{counted(view['after_final'], 'event')} of view {name} in windows that were final"
        for name, view in document["views"].items()
        if view["after_final"]
    ]
    if late:
        yield f"all of them count: {', '.join(late)}; a load of history has many"


def _hot_cell(hot: Mapping[str, Any] | None) -> str | None:
    """How far the hot tail is ahead of commits, or that it stands aside."""
    if hot is None:
        return None
    return "aside" if hot["aside"] else f"+{hot['ahead']}"


def _total(position: Mapping[str, Mapping[str, int]] | None) -> int | None:
    """Offsets below a position, over all partitions."""
    return None if position is None else sum(sum(partitions.values()) for partitions in position.values())
